// Routes behind `#`. Those of a resource are its full name: `#/projects/p/topics/orders`.

export function here() {
	const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
	let parts;
	try { parts = path.split("/").filter(Boolean).map(decodeURIComponent); } catch { parts = ["?"]; }
	return { parts, query: new URLSearchParams(query ?? "") };
}

export const go = (hash) => { location.hash = hash; };

/** Other parameters of the page that is open, without a new entry in the history. */
export function replaceQuery(values) {
	const path = location.hash.split("?")[0];
	const set = Object.entries(values).filter(([, value]) => value !== "" && value !== undefined && value !== false);
	history.replaceState(null, "", set.length ? `${path}?${new URLSearchParams(set)}` : path);
}
