-- Contents that a step repeats are cut out of its data and its items; cuts says
-- where they were (store.Holes). NULL: nothing was cut, as in every older row.

-- +goose Up
ALTER TABLE steps ADD COLUMN cuts BLOB;
