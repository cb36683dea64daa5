// The frame: who is signed in, which project, which page.

import { homeOf } from "./words.js";
import { at, failure, h, heading, note, tell } from "./dom.js";
import { forgetRights, forPage, get, readSession, rights, signIn, signOut, whoAmI } from "./api.js";
import * as live from "./live.js";
import { go, here } from "./router.js";
import { PAGES, pageOf } from "./pages.js";

let serverFacts = null;
let project = "";
let leave = new AbortController();
let first = true;

const THEMES = { light: ["☾", "Use dark colours"], dark: ["☀", "Use light colours"] };

function shownTheme() {
	return document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function themeButton() {
	const [sign, words] = THEMES[shownTheme()];
	at("theme").textContent = sign;
	at("theme").setAttribute("aria-label", words);
	at("theme").title = words;
}

at("theme").addEventListener("click", () => {
	const next = shownTheme() === "dark" ? "light" : "dark";
	document.documentElement.dataset.theme = next;
	localStorage.setItem("fanlog-theme", next);
	themeButton();
});

function menu(openIt) {
	document.body.classList.toggle("menu-open", openIt);
	at("menu").setAttribute("aria-expanded", String(openIt));
}
at("menu").addEventListener("click", () => menu(!document.body.classList.contains("menu-open")));
document.addEventListener("keydown", (event) => { if (event.key === "Escape") menu(false); });
at("skip").addEventListener("click", (event) => { event.preventDefault(); at("main").focus(); });

at("sign-out").addEventListener("click", async () => {
	try { await signOut(); } catch (error) { tell(error.message, true); }
	forgetRights();
	start();
});
window.addEventListener("signed-out", () => start());
window.addEventListener("hashchange", () => show());

at("project").addEventListener("change", () => {
	project = at("project").value;
	localStorage.setItem("fanlog-project", project);
	const { parts } = here();
	go(parts[0] === "projects" ? `${homeOf(project)}/${parts[2] ?? "topics"}` : `#/${parts.join("/")}`);
	if (parts[0] !== "projects") show();
});

function signInPage(sentence) {
	live.stop();
	at("nav").replaceChildren();
	at("project-label").hidden = at("who").hidden = at("sign-out").hidden = true;
	const token = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
	const wrong = h("p.failure", { role: "alert", hidden: !sentence }, sentence);
	at("main").replaceChildren(h("div.card.sign-in", h("h1", "Sign in"),
		note("This server asks who calls. A token of an account opens the console; “fanlog auth token create NAME” makes one."),
		h("form", { onsubmit: async (event) => {
			event.preventDefault();
			try { await signIn(token.value.trim()); forgetRights(); start(); }
			catch (error) { wrong.textContent = error.message; wrong.hidden = false; token.select(); }
		} }, h("label", { for: "token" }, "Token"), token, wrong, h("button.primary", "Sign in"))));
	token.focus();
}

async function navigation() {
	const may = await rights(`projects/${project}`);
	const groups = [];
	for (const page of PAGES) {
		if (page.under || (page.when && !page.when({ session: whoAmI(), server: serverFacts })) || (page.needs && !page.needs.some(may))) continue;
		const group = groups.find((one) => one.name === page.group) ?? groups[groups.push({ name: page.group, items: [] }) - 1];
		const href = page.path.startsWith("P/") ? `${homeOf(project)}/${page.path.slice(2)}` : `#/${page.path}`;
		group.items.push(h("li", h("a", { href, "data-page": page.path }, page.title)));
	}
	at("nav").replaceChildren(...groups.flatMap((group) => [group.name ? h("p.group", group.name) : "", h("ul", group.items)]));
}

function mark(page) {
	for (const one of at("nav").querySelectorAll("a")) {
		if (one.dataset.page === (page.under ?? page.path)) one.setAttribute("aria-current", "page");
		else one.removeAttribute("aria-current");
	}
}

async function show() {
	leave.abort();
	leave = new AbortController();
	const { signal } = leave;
	forPage(signal);
	menu(false);
	const { parts, query } = here();
	if (parts[0] === "projects" && parts[1] && parts[1] !== project) {
		project = parts[1];
		chooseProject();
		await navigation();
	}
	const { page, names } = pageOf(parts);
	mark(page);
	const root = h("div.page");
	const context = { root, names, query, signal, project, server: serverFacts, title: page.title,
		may: await rights(`projects/${project}`), reload: show };
	for (const dialog of document.querySelectorAll("dialog")) dialog.close();
	live.want(page.live ? page.live(names, project) : {});
	try {
		const open = await page.open();
		if (signal.aborted) return;
		await open(context);
	} catch (error) {
		if (signal.aborted) return;
		root.replaceChildren(heading(page.title), failure(error));
	}
	if (signal.aborted) return;
	at("main").replaceChildren(root);
	const title = root.querySelector("h1");
	document.title = `${title?.textContent ?? page.title} · Fanlog`;
	window.scrollTo(0, 0);
	if (!first) title?.focus({ preventScroll: true });
	first = false;
}

function chooseProject() {
	const names = [...new Set([project, serverFacts.project, ...(serverFacts.projects ?? [])])].filter(Boolean).sort();
	at("project").replaceChildren(...names.map((name) => h("option", { value: name }, name)));
	at("project").value = project;
	at("project-label").hidden = names.length < 2;
}

async function start() {
	leave.abort();
	forPage();
	themeButton();
	try {
		const session = await readSession();
		if (session.auth === "required" && !session.signedIn) return signInPage();
		at("who").hidden = at("sign-out").hidden = !session.signedIn;
		at("who").textContent = (session.member ?? "").replace(/^serviceAccount:([^@]+)@.*/, "$1");
		at("who").title = session.member ?? "";
		serverFacts = await get("/v1/server");
		serverFacts.projects = serverFacts.projects?.map((name) => name.replace(/^projects\//, ""));
		const kept = localStorage.getItem("fanlog-project");
		const own = serverFacts.project.replace(/^projects\//, "");
		serverFacts.project = own;
		project = kept && serverFacts.projects?.includes(kept) ? kept : own;
		chooseProject();
		live.allow((await rights())("fanlog.metrics.get"));
		await navigation();
		await show();
	} catch (error) {
		at("main").replaceChildren(h("div.page", heading("Fanlog"), failure(error)));
		setTimeout(start, 3000);
	}
}

start();
