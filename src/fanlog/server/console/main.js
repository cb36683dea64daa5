// The frame: who is signed in, which project, which page.

import { homeOf } from "./words.js";
import { at, empty, failure, h, heading, note, show, submit, tell } from "./dom.js";
import { forgetRights, forPage, get, readSession, rights, signIn, signOut, whoAmI } from "./api.js";
import * as live from "./live.js";
import { go, here } from "./router.js";
import { PAGES, pageOf } from "./pages.js";

let serverFacts = null;
let project = "";
let leave = new AbortController();
let first = true;

const clicked = (id, act) => at(id).addEventListener("click", act);

clicked("theme", () => {
	const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
	const next = dark ? "light" : "dark";
	document.documentElement.dataset.theme = next;
	localStorage.setItem("fanlog-theme", next);
});

function menu(openIt) {
	document.body.classList.toggle("menu-open", openIt);
	at("menu").setAttribute("aria-expanded", String(openIt));
}
clicked("menu", () => menu(!document.body.classList.contains("menu-open")));
document.addEventListener("keydown", (event) => { if (event.key === "Escape") menu(false); });
clicked("skip", (event) => { event.preventDefault(); at("main").focus(); });

clicked("sign-out", async () => {
	try { await signOut(); } catch (error) { tell(error.message, true); }
	forgetRights();
	start();
});
window.addEventListener("signed-out", () => start());
window.addEventListener("hashchange", () => open());

at("project").addEventListener("change", () => {
	project = at("project").value;
	localStorage.setItem("fanlog-project", project);
	const { parts } = here();
	go(parts[0] === "projects" ? `${homeOf(project)}/${parts[2] ?? "topics"}` : `#/${parts.join("/")}`);
	if (parts[0] !== "projects") open();
});

function signInPage(sentence) {
	live.stop();
	at("nav").replaceChildren();
	at("project-label").hidden = at("who").hidden = at("sign-out").hidden = true;
	const token = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
	const wrong = h("p.failure", { role: "alert", hidden: !sentence }, sentence);
	const enter = async () => {
		try { await signIn(token.value.trim()); forgetRights(); start(); }
		catch (error) { wrong.textContent = error.message; wrong.hidden = false; token.select(); }
	};
	const form = submit("Sign in", enter, h("h1", "Sign in"), note("A token of an account opens the console: “fanlog auth token create NAME” makes one."),
		h("label", { for: "token" }, "Token"), token, wrong, h("button.primary", "Sign in"));
	form.classList.add("sign-in");
	show(at("main"), form);
	token.focus();
}

async function navigation() {
	const may = await rights(`projects/${project}`);
	const groups = [];
	for (const page of PAGES) {
		if (page.under || (page.when && !page.when({ session: whoAmI(), server: serverFacts })) || (page.needs && !page.needs.some(may))) continue;
		const group = groups.find((one) => one.name === page.group) ?? groups[groups.push({ name: page.group, items: [] }) - 1];
		const href = page.path.replace(/^P/, homeOf(project)).replace(/^(?!#)/, "#/");
		group.items.push(h("li", h("a", { href, "data-page": page.path }, page.title)));
	}
	show(at("nav"), groups.map((group) => [group.name && h("p.group", group.name), h("ul", group.items)]));
}

function mark(page) {
	for (const one of at("nav").querySelectorAll("a")) {
		if (one.dataset.page === (page.under ?? page.path)) one.setAttribute("aria-current", "page");
		else one.removeAttribute("aria-current");
	}
}

const NOWHERE = { path: "?", title: "Not here", open: () => ({ root }) => root.append(heading("Not here"), empty("There is no such page.", "The link may be of another version.")) };

async function open() {
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
	const { page, names } = pageOf(parts) ?? { page: NOWHERE };
	mark(page);
	// Acts on a page that is being replaced would not be seen.
	at("main").inert = true;
	const root = h("div.page");
	const context = { root, names, query, signal, project, server: serverFacts, title: page.title,
		may: await rights(`projects/${project}`), reload: open };
	for (const dialog of document.querySelectorAll("dialog")) dialog.close();
	live.want(page.live ? page.live(names, project) : {});
	try {
		const make = await page.open();
		if (signal.aborted) return;
		await make(context);
	} catch (error) {
		if (signal.aborted) return;
		show(root, heading(page.title), failure(error));
		// Away, or busy: later it may not be.
		if (error.status === 0 || error.status > 499) setTimeout(() => signal.aborted || open(), 3000);
	}
	if (signal.aborted) return;
	at("main").inert = false;
	show(at("main"), root);
	const title = root.querySelector("h1");
	document.title = `${title?.textContent ?? page.title} · Fanlog`;
	window.scrollTo(0, 0);
	if (!first) title?.focus({ preventScroll: true });
	first = false;
}

function chooseProject() {
	const names = [...new Set([project, serverFacts.project, ...(serverFacts.projects ?? [])])].filter(Boolean).sort();
	show(at("project"), names.map((name) => h("option", { value: name }, name)));
	at("project").value = project;
	at("project-label").hidden = names.length < 2;
}

async function start() {
	leave.abort();
	at("main").inert = false;
	forPage();
	try {
		const session = await readSession();
		if (session.auth === "required" && !session.signedIn) return signInPage();
		at("who").hidden = at("sign-out").hidden = !session.signedIn;
		at("who").textContent = (session.member ?? "").replace(/^serviceAccount:([^@]+)@.*/, "$1");
		at("who").title = session.member ?? "";
		serverFacts = await get("/v1/server");
		serverFacts.projects = serverFacts.projects?.map((name) => name.replace(/^projects\//, ""));
		serverFacts.project = serverFacts.project.replace(/^projects\//, "");
		const kept = localStorage.getItem("fanlog-project");
		project = serverFacts.projects?.includes(kept) ? kept : serverFacts.project;
		chooseProject();
		live.allow((await rights())("fanlog.metrics.get"));
		await navigation();
		await open();
	} catch (error) {
		show(at("main"), h("div.page", heading("Fanlog"), failure(error)));
		setTimeout(start, 3000);
	}
}

start();
