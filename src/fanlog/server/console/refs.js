import { h } from "./dom.js";
import { idOf, link, pairsOf } from "./words.js";

/** A resource by its id, with the way to its page. */
export const ref = (full) => h("a", { href: link(full) }, idOf(full));
export const labels = (map) => h("ul", { class: "labels" }, pairsOf(map).map((pair) => h("li", {}, pair)));
