// Numbers, times and names for people.

import { queryOf } from "./api.js";
import { a, h } from "./dom.js";

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => whole.format(Number(value ?? 0));
export const brief = (value) => (Math.abs(value) >= 10000 ? compact.format(value) : short.format(value ?? 0));
export const rate = (value) => (value === undefined || value === null ? "–" : `${brief(value)}/s`);
export const percent = (value) => `${short.format(Number(value ?? 0) * 100)} %`;
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${Number(number) === 1 ? one : many}`;

export function bytes(value) {
	let size = Number(value ?? 0);
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	while (size >= 1024 && units.length > 1) { size /= 1024; units.shift(); }
	return `${short.format(size)} ${units[0]}`;
}

export const seconds = (duration) => (duration ? parseFloat(duration) : 0);

/** "3.5s" of the API, or a number of seconds, as people say it. */
export function age(duration) {
	const all = typeof duration === "number" ? duration : seconds(duration);
	if (all < 0.001) return "0 s";
	if (all < 1) return `${Math.round(all * 1000)} ms`;
	if (all < 60) return `${short.format(all)} s`;
	const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
	const first = parts.findIndex(([size]) => all >= size);
	const [size, unit] = parts[first];
	const [next, smaller] = parts[first + 1] ?? [1, ""];
	const rest = Math.floor((all % size) / next);
	return `${Math.floor(all / size)} ${unit}${rest && smaller ? ` ${rest} ${smaller}` : ""}`;
}

export function duration(words) {
	const text = String(words ?? "").trim();
	if (!text) return undefined;
	const found = /^(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|w)?$/.exec(text);
	if (!found) throw new Error(`“${text}” is no duration: write 30s, 10min, 12h or 7d`);
	const unit = { ms: 0.001, s: 1, m: 60, min: 60, h: 3600, d: 86400, w: 604800 }[found[2] ?? "s"];
	return `${Number(found[1]) * unit}s`;
}

export function inUnits(text) {
	const all = seconds(text);
	if (!all) return "";
	for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (all % size === 0) return `${all / size}${unit}`;
	return `${all}s`;
}

const clock = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const clocks = [clock, { ...clock, year: "numeric" }].map((form) => new Intl.DateTimeFormat("en-GB", form));
export function when(value) {
	const found = new Date(value);
	return clocks[Number(found.getFullYear() !== new Date().getFullYear())].format(found);
}
export const time = (value) => (value ? h("time", { datetime: value, title: value }, when(value)) : "–");
export const ago = (value) => (value ? `${age(Math.max(0, (Date.now() - new Date(value)) / 1000))} ago` : "–");

export const instant = (local) => (local ? new Date(local).toISOString() : undefined);

export const idOf = (name) => String(name ?? "").split("/").slice(3).join("/") || String(name ?? "");
export const projectOf = (name) => /^projects\/([^/]+)/.exec(name ?? "")?.[1];
export const homeOf = (project) => `#/projects/${encodeURIComponent(project)}`;
export const apiOf = (project) => `/v1/projects/${encodeURIComponent(project)}`;
export const link = (name) => `#/${name.split("/").map(encodeURIComponent).join("/")}`;
export const pathOf = (name) => `/v1/${name.split("/").map(encodeURIComponent).join("/")}`;

export const capital = (text) => text[0].toUpperCase() + text.slice(1);
/** A name that was given short or full, and the other way round. */
export const fullName = (name, kind, project) => (name.includes("/") ? name : `projects/${project}/${kind}/${name}`);
export const inProject = (name, project) => (name && projectOf(name) === project ? idOf(name) : name);
/** The page of a project, such as `messages`, with parameters. */
export const to = (project, page, query) => `${homeOf(project)}/${page}${queryOf(query)}`;
export const lifeOf = (messageId, project) => to(project, `messages/${encodeURIComponent(messageId)}`);
export const life = (project) => (id) => a(lifeOf(id, project), id);

export const pairsOf = (map) => Object.entries(map ?? {}).map(([key, value]) => `${key}=${value}`);
export function mapOf(lines) {
	const found = {};
	for (const line of String(lines ?? "").split("\n").map((one) => one.trim()).filter(Boolean)) {
		const cut = line.indexOf("=");
		if (cut < 1) throw new Error(`“${line}” has no “=”: write one name=value a line`);
		found[line.slice(0, cut).trim()] = line.slice(cut + 1).trim();
	}
	return found;
}
