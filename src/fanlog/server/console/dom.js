// Elements. All strings become text; nothing here or elsewhere in the console makes markup of them.

function fill(element, properties, children) {
	for (const [name, value] of Object.entries(properties ?? {})) {
		if (value === undefined || value === null || value === false) continue;
		if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
		else if (name === "value") element.value = value;
		else element.setAttribute(name, value === true ? "" : String(value));
	}
	element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
	return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

export const svg = (tag, properties, ...children) =>
	fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);

export const at = (id) => document.getElementById(id);

let told = 0;
/** A sentence for everybody: it is shown for a while, and read aloud. */
export function tell(sentence, bad = false) {
	const mine = ++told;
	const note = h("p", { class: bad ? "bad" : "good" }, sentence);
	at("told").replaceChildren(note);
	setTimeout(() => mine === told && note.remove(), bad ? 9000 : 5000);
}

export const section = (title, ...children) => {
	const id = `s-${++sections}`;
	return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), ...children);
};
let sections = 0;

export const empty = (title, sentence, ...more) =>
	h("div", { class: "empty" }, h("p", { class: "lead" }, title), sentence && h("p", {}, sentence), ...more);

export const failure = (error) => h("p", { class: "failure", role: "alert" }, error.message);

export const note = (...words) => h("p", { class: "note" }, ...words);
export const code = (words) => h("code", {}, words);
export const badge = (words, tone = "") => h("span", { class: `badge ${tone}` }, words);

/** Pairs of a name and a value; pairs without a value are left out. */
export const facts = (pairs, kind = "facts") =>
	h("dl", { class: kind }, pairs.filter(([, value]) => value !== undefined && value !== null && value !== "").map(
		([name, value, note]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, note && h("small", {}, note)))));

export const heading = (title, { kind, badges = [], actions = [], note } = {}) =>
	h("div", { class: "heading" },
		h("div", { class: "what" }, kind && h("p", { class: "kind" }, kind),
			h("h1", { tabindex: "-1" }, title, ...badges.flatMap((one) => [" ", one])),
			note && h("p", { class: "note" }, note)),
		h("div", { class: "actions" }, actions));

export const button = (words, act, kind = "") => h("button", { type: "button", class: kind, onclick: act }, words);

/** Runs now and again until the page is left; not while nobody looks, and not below a dialog. */
export function every(milliseconds, signal, act) {
	let busy = false;
	const turn = async () => {
		if (busy || document.hidden || signal.aborted || document.querySelector("dialog[open]")) return;
		busy = true;
		try { await act(); } catch (error) { if (!signal.aborted) console.info(error.message); } finally { busy = false; }
	};
	const timer = setInterval(turn, milliseconds);
	signal.addEventListener("abort", () => clearInterval(timer));
	return turn();
}
