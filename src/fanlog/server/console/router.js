// Routes behind `#`; that of a resource is its full name.

import { get, queryOf } from "./api.js";
import { a, h } from "./dom.js";
import { apiOf, idOf, link, pairsOf } from "./words.js";

export function here() {
	const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
	let parts;
	try { parts = path.split("/").filter(Boolean).map(decodeURIComponent); } catch { parts = ["?"]; }
	return { parts, query: new URLSearchParams(query ?? "") };
}

export const go = (hash) => { location.hash = hash; };

/** Other parameters of the open page, with no new entry in the history. */
export function replaceQuery(values) {
	const path = location.hash.split("?")[0];
	history.replaceState(null, "", path + queryOf(values));
}

export const ref = (full) => a(link(full), idOf(full));
/** Ids for suggestions: the first 200. */
export const idsOf = async (project, kind) => ((await get(`${apiOf(project)}/${kind}:search`, { pageSize: 200 }))[kind] ?? []).map((one) => idOf(one.name));
export const labels = (map) => h("ul.labels", pairsOf(map).map((pair) => h("li", pair)));
