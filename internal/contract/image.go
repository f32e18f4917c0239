package contract

import "github.com/aptixhq/aptix/internal/agent"

// readImages reads clipboardImages (AGN-034 §4.3). An image says nothing about where
// it came from: it has no path and no origin.
func readImages(list value, limit int, b *budget) []agent.Image {
	var out []agent.Image
	named := map[string]string{} // id → pointer of the image that has it
	for _, item := range list.atMost(limit, list.list("AGN034-2.1-c")) {
		if o, ok := item.object("AGN034-2.1-c"); ok {
			out = append(out, readImage(o, b, named))
		}
	}
	return out
}

func readImage(o *object, b *budget, named map[string]string) agent.Image {
	const rule = "AGN034-4.3-a"
	id := o.need("id", rule)
	im := agent.Image{
		ID:         id.name(rule),
		MimeType:   o.need("mimeType", rule).oneOf(rule, "image/png", "image/jpeg", "image/gif", "image/webp"),
		DataBase64: readImageData(o.need("dataBase64", rule), b),
	}
	if twin, ok := named[im.ID]; ok && im.ID != "" {
		id.fault(rule, "is the id of %s too; give each image its own.", twin)
	} else {
		named[im.ID] = o.at
	}
	o.done("a clipboard image")
	return im
}

func readImageData(v value, b *budget) string {
	const rule = "AGN034-4.3-a"
	data, ok := v.text(rule)
	if !ok {
		return ""
	}
	size, ok := base64Size(data)
	switch {
	case !ok:
		v.fault(rule, notBase64)
	case size == 0:
		v.fault(rule, "is empty; leave the image out or send its data.")
	}
	b.spend(size, v)
	return data
}
