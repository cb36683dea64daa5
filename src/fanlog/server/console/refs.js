import { a, h } from "./dom.js";
import { get } from "./api.js";
import { apiOf, idOf, link, pairsOf } from "./words.js";

/** A resource by its id, with the way to its page. */
export const ref = (full) => a(link(full), idOf(full));
/** Ids for suggestions: the first 200. */
export const idsOf = async (project, kind) => ((await get(`${apiOf(project)}/${kind}:search`, { pageSize: 200 }))[kind] ?? []).map((one) => idOf(one.name));
export const labels = (map) => h("ul.labels", pairsOf(map).map((pair) => h("li", pair)));
