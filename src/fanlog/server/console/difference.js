// The difference of two texts, line by line, with a few lines around each change.

import { h, note } from "./dom.js";

const AROUND = 3;
const LINES = 2000;

/** Pairs of `=`, `-` or `+` and a line, by the longest common subsequence. */
export function changes(before, after) {
	const [a, b] = [before.split("\n").slice(0, LINES), after.split("\n").slice(0, LINES)];
	const width = b.length + 1;
	const best = new Uint16Array((a.length + 1) * width);
	for (let i = a.length - 1; i >= 0; i -= 1) {
		for (let j = b.length - 1; j >= 0; j -= 1) {
			best[i * width + j] = a[i] === b[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
		}
	}
	const found = [];
	let [i, j] = [0, 0];
	while (i < a.length || j < b.length) {
		if (i < a.length && j < b.length && a[i] === b[j]) { found.push(["=", a[i]]); i += 1; j += 1; }
		else if (i < a.length && (j === b.length || best[(i + 1) * width + j] >= best[i * width + j + 1])) { found.push(["-", a[i]]); i += 1; }
		else { found.push(["+", b[j]]); j += 1; }
	}
	return found;
}

const NAMES = { "-": "del", "+": "ins", "=": "span" };

export function difference(before, after) {
	const found = changes(before, after);
	const near = new Set();
	found.forEach(([sign], index) => { if (sign !== "=") for (let at = index - AROUND; at <= index + AROUND; at += 1) near.add(at); });
	if (!near.size) return note("They are the same.");
	let hidden = false;
	const lines = [];
	found.forEach(([sign, line], index) => {
		if (!near.has(index)) {
			if (!hidden) lines.push(h("span.gap", "⋯\n"));
			hidden = true;
		} else {
			hidden = false;
			lines.push(h(NAMES[sign], {}, `${sign === "=" ? " " : sign} ${line}\n`));
		}
	});
	return h("pre.data.difference", { tabindex: "0" }, lines);
}
