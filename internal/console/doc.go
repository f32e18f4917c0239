// Package console is the web application of Aptix: pages at / on which people talk to the
// agent and see what it did and why. It is another client of a server that happens to live
// in the same process. A page is rendered here, from what the API's handlers read, for the
// same caller; whatever a page changes, its script sends to the API, as any client would.
// So there is nothing that the console may do and the API may not, and nothing of it can
// change a thing but the sign-in.
//
// Pages are HTML from templates, with one style sheet, one script and htmx, all embedded.
// Their policy lets nothing else run and no request leave for another origin. What a
// model, a tool or a user wrote is text everywhere; Markdown of answers is rendered here,
// to a few elements and without any HTML of its own.
//
// A turn that runs is shown from its journal, and from there on by its events: the script
// reads the API's stream from the first one that the page does not show, appends text, and
// has the turn rendered anew whenever something else happens. A cut stream is taken up
// again where it ended, also at a server that was started anew meanwhile.
package console
