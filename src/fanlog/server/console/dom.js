// Elements. All strings become text; nothing in the console makes markup of them.

const isChild = (one) => one === null || typeof one !== "object" || Object.getPrototypeOf(one) !== Object.prototype;
const wanted = (children) => children.flat(3).filter((child) => child !== null && child !== undefined && child !== false);

function fill(element, properties, children) {
	for (const [name, value] of Object.entries(properties ?? {})) {
		if (value === undefined || value === null || value === false) continue;
		if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
		else if (name === "value") element.value = value;
		else element.setAttribute(name, value === true ? "" : String(value));
	}
	element.append(...wanted(children));
	return element;
}

/** `h("p.note", "words")`, `h("a", { href }, "words")`; children that are false or nothing are left out. */
export function h(tag, ...rest) {
	const [name, ...classes] = tag.split(".");
	const element = document.createElement(name);
	if (classes.length) element.className = classes.join(" ");
	return isChild(rest[0]) ? fill(element, {}, rest) : fill(element, rest[0], rest.slice(1));
}

export const svg = (tag, properties, ...children) =>
	fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);

export function show(element, ...children) {
	element.replaceChildren(...wanted(children));
	return element;
}
export const refill = (card, ...children) => show(card, card.firstChild, children);

export const at = (id) => document.getElementById(id);

let told = 0;
/** A sentence that is shown for a while, and read aloud. */
export function tell(sentence, bad = false) {
	const mine = ++told;
	const note = h("p", { class: bad ? "bad" : "good" }, sentence);
	at("told").replaceChildren(note);
	setTimeout(() => mine === told && note.remove(), bad ? 9000 : 5000);
}

export const section = (title, ...children) => {
	const id = `s-${++sections}`;
	return h("section.card", { "aria-labelledby": id }, h("h2", { id }, title), children);
};
let sections = 0;

export const empty = (title, sentence, ...more) =>
	h("div.empty", h("p.lead", title), sentence && h("p", sentence), more);

export const failure = (error) => h("p.failure", { role: "alert" }, error.message);

export const note = (...words) => h("p.note", words);
export const fine = (words) => h("p.fine", h("i", { "aria-hidden": "true" }), words);
export const code = (words) => h("code", words);
export const badge = (words, tone = "") => h("span", { class: `badge ${tone}` }, words);

export const health = (trouble, fine = "healthy") => (trouble ? badge(trouble, "bad") : badge(fine, "good"));

/** Names and values, with a form to show them in, or a note; those without a value are left out. */
export const facts = (pairs, kind = "facts") =>
	h("dl", { class: kind }, pairs.filter(([, value]) => value || value === 0).map(
		([name, value, form]) => h("div", h("dt", name), h("dd", typeof form === "function" ? form(value) : [value, form && h("small", form)]))));
export const submit = (label, act, ...children) =>
	h("form.card.stack", { "aria-label": label, onsubmit: (event) => { event.preventDefault(); act(); } }, children);
/** What is done a moment after the last of many changes. */
export function soon(act, milliseconds = 250) {
	let timer = 0;
	return (...given) => { clearTimeout(timer); timer = setTimeout(act, milliseconds, ...given); };
}

export const heading = (title, { kind, badges = [], actions = [], note } = {}) =>
	h("div.heading",
		h("div.what", kind && h("p.kind", kind),
			h("h1", { tabindex: "-1" }, title, badges.filter(Boolean).flatMap((one) => [" ", one])),
			note && h("p.note", note)),
		h("div.actions", actions));

export const tile = (label, value, tone = "") => h("div", { class: `tile ${tone}` }, h("p.label", label), typeof value === "object" ? value : h("p.value", value));

export const a = (href, ...words) => h("a", { href }, words);
export const button = (words, act, kind = "") => h("button", { type: "button", class: kind, onclick: act }, words);
/** A button that asks, and has the page drawn anew if that was not cancelled. */
export const asking = (words, question, after, kind) => button(words, async () => (await question()) && after(), kind);
export const columns = (...cards) => h("div.columns", cards);

/** Runs until the page is left; not while nobody looks, and not below a dialog. */
export function every(milliseconds, signal, act) {
	let busy = false;
	const turn = async () => {
		if (busy || document.hidden || signal.aborted || document.querySelector("dialog[open]")) return;
		busy = true;
		try { await act(); } catch (error) { if (!signal.aborted) console.info(error.message); } finally { busy = false; }
	};
	const timer = setInterval(turn, milliseconds);
	signal.addEventListener("abort", () => clearInterval(timer));
	return act();
}
