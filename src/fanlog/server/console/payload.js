// Data of messages as text, JSON and hex; a part at a time, so that ten megabytes do not freeze a page.

import { button, h, note } from "./dom.js";

const CHARACTERS = 60_000;
const HEX_BYTES = 16_384;

export function raw(base64) {
	return Uint8Array.from(atob(base64 ?? ""), (one) => one.charCodeAt(0));
}

export function encoded(text) {
	const raw = new TextEncoder().encode(text);
	let binary = "";
	for (let at = 0; at < raw.length; at += 32768) binary += String.fromCharCode(...raw.subarray(at, at + 32768));
	return btoa(binary);
}

/** Data, or base64 of it, as text; null when it is none. */
export function textOf(found) {
	const data = typeof found === "string" ? raw(found) : found ?? new Uint8Array();
	try { return new TextDecoder("utf-8", { fatal: true }).decode(data); } catch { return null; }
}

/** JSON with line breaks; numbers stay as they were written. */
export function pretty(text) {
	try { JSON.parse(text); } catch { return null; }
	let out = "";
	let depth = 0;
	const line = () => `\n${"  ".repeat(depth)}`;
	for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
		if (token === "{" || token === "[") { depth += 1; out += token + line(); }
		else if (token === "}" || token === "]") { depth -= 1; out = /[{[]\s*$/.test(out.slice(-200)) ? out.trimEnd() + token : out + line() + token; }
		else if (token === ",") out += token + line();
		else out += token === ":" ? ": " : token;
	}
	return out;
}

export function hex(data, from = 0, to = data.length) {
	const lines = [];
	for (let at = from; at < Math.min(to, data.length); at += 16) {
		const part = [...data.subarray(at, at + 16)];
		const codes = part.map((one) => one.toString(16).padStart(2, "0")).join(" ").padEnd(48);
		lines.push(`${at.toString(16).padStart(8, "0")}  ${codes} ${part.map((one) => (one > 31 && one < 127 ? String.fromCharCode(one) : "·")).join("")}`);
	}
	return lines.join("\n");
}

/** Much of something, a part at a time: `part(from, to)` of `all`. */
function long(all, size, part) {
	let at = Math.min(size, all);
	const shown = h("pre.data", { tabindex: "0" }, part(0, at));
	const more = button("Show more of it", () => {
		shown.append(part(at, at + size));
		at += size;
		more.hidden = at >= all;
	}, "small");
	more.hidden = at >= all;
	return h("div", shown, more);
}
const longText = (text) => long(text.length, CHARACTERS, (from, to) => text.slice(from, to));
const longHex = (data) => long(data.length, HEX_BYTES, (from, to) => `${from ? "\n" : ""}${hex(data, from, to)}`);

let numbers = 0;

/** Tabs of what the data may be read as; `decoded` is by the schema. */
export function payload(base64, { decoded, decodingError } = {}) {
	const data = raw(base64);
	const text = textOf(data);
	const json = text !== null && text.length <= 2_000_000 && /^\s*[[{]/.test(text) ? pretty(text) : null;
	const forms = [
		decoded && ["Decoded", () => longText(pretty(decoded) ?? decoded)],
		json && ["JSON", () => longText(json)],
		text !== null && ["Text", () => longText(text)],
		["Hex", () => longHex(data)],
	].filter(Boolean);
	const id = `v-${++numbers}`;
	const panel = h("div", { role: "tabpanel", id, "aria-label": "Data" });
	const tabs = forms.map(([name, make], index) => h("button", { type: "button", role: "tab", "aria-controls": id,
		onclick: () => choose(index), onkeydown: (event) => {
			const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
			if (step) choose((index + step + tabs.length) % tabs.length, true);
		} }, name));
	function choose(index, focus = false) {
		tabs.forEach((tab, other) => { tab.setAttribute("aria-selected", String(other === index)); tab.tabIndex = other === index ? 0 : -1; });
		panel.replaceChildren(forms[index][1]());
		if (focus) tabs[index].focus();
	}
	choose(0);
	const save = button("Save", () => {
		const link = h("a", { href: URL.createObjectURL(new Blob([data])), download: "message.bin" });
		link.click();
		setTimeout(() => URL.revokeObjectURL(link.href), 1000);
	}, "quiet small");
	return h("div.payload", h("div.tabs", h("div", { role: "tablist", "aria-label": "Read the data as" }, tabs), save),
		decodingError && note(decodingError), data.length ? panel : note("The message has no data."));
}

export function preview(base64, most = 160) {
	const data = raw((base64 ?? "").slice(0, 4 * Math.ceil(most / 2)));
	const text = textOf(data) ?? textOf(data.subarray(0, Math.max(0, data.length - 3)));
	return text === null ? hex(data.subarray(0, 24)).slice(10, 58) : text.slice(0, most).replace(/\s+/g, " ");
}
