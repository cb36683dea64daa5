// Accounts with their tokens and keys, and the policies of the project and of the server.

import { all, ask, badge, button, cell, code, empty, get, h, heading, inform, instant, note, post, put, remove, rowActs, rowName, section, table, time } from "../kit.js";
import { policyCard } from "./permissions.js";

const expiry = { name: "expires", label: "Expires", type: "datetime-local", step: 1, hint: "Empty: the server's longest." };

const showToken = (token) => inform("The new token", h("p", {}, "It is shown this once. The server keeps only what it needs to know it again."), h("code", { class: "block" }, token));

function account(found, may, draw) {
	const base = `/v1/accounts/${encodeURIComponent(found.name)}`;
	const change = may("fanlog.accounts.update");
	const newToken = async () => {
		const made = await ask({ title: `A token for ${found.name}`, label: "Make the token", fields: [expiry], act: ({ expires }) => post(`${base}:createToken`, expires ? { expireTime: instant(expires) } : {}) });
		if (made) { showToken(made.token); draw(); }
	};
	const newKey = async () => (await ask({ title: `A key of ${found.name}`, label: "Add the key", done: "The key is added.", fields: [{ name: "publicKey", label: "Public key, in PEM", type: "textarea", rows: 6, mono: true, required: true }, expiry],
		act: ({ publicKey, expires }) => post(`${base}:addKey`, { publicKey, ...(expires && { expireTime: instant(expires) }) }) })) && draw();
	const revoke = (what, id) => async () => (await ask({ title: `Revoke the ${what} ${id}?`, label: "Revoke", danger: true, lead: "Calls with it are refused from now on.", done: "Revoked.",
		act: () => post(`${base}:revoke${what === "token" ? "Token" : "Key"}`, { [`${what}Id`]: id }) })) && draw();
	const drop = async () => (await ask({ title: `Delete ${found.name}?`, label: "Delete the account", danger: true, confirmName: found.name, lead: "Its keys and tokens go with it.", done: "The account is gone.", act: () => remove(base) })) && draw();
	const rows = [...(found.tokens ?? []).map((one) => ({ ...one, what: "token" })), ...(found.keys ?? []).map((one) => ({ ...one, what: "key" }))];
	return section(found.name, note(found.email), table(`Tokens and keys of ${found.name}`, [
		rowName("Id", (row) => code(row.id)),
		cell("Kind", (row) => badge(row.what)),
		cell("Made", (row) => time(row.createTime)),
		cell("Expires", (row) => (row.expireTime ? time(row.expireTime) : "never")),
		rowActs((row) => (change ? button("Revoke", revoke(row.what, row.id), "danger quiet small") : "")),
	], rows, empty("Neither token nor key.", "Nobody can call as this account.")),
	h("div", { class: "actions below" }, change && button("New token", newToken, "small"), change && button("Add a key", newKey, "small"), may("fanlog.accounts.delete") && button("Delete", drop, "danger quiet small")));
}

export async function access({ root, project, may, signal }) {
	const place = h("div", { class: "columns wide" });
	const draw = async () => {
		const found = may("fanlog.accounts.list") ? await all("/v1/accounts", "accounts", {}, 500) : [];
		if (!signal.aborted) place.replaceChildren(...(found.length ? found.map((one) => account(one, may, draw)) : [empty("No accounts are shown.")]));
	};
	const make = async () => (await ask({ title: "Create an account", label: "Create", done: "The account is there.", fields: [{ name: "name", label: "Name", required: true, mono: true }], act: ({ name }) => post("/v1/accounts", { name }) })) && draw();
	root.append(heading("Access", { note: "Who may call this server, and what they may do.", actions: may("fanlog.accounts.create") ? [button("Create an account", make, "primary")] : [] }));
	for (const [title, resource] of [[`Roles in the project ${project}`, `projects/${project}`], ["Roles on the whole server", "server"]]) {
		if (may("fanlog.policies.get")) {
			root.append(await policyCard(title, () => get("/v1/policies", { resource }), (policy) => put("/v1/policies", { resource, policy }), may("fanlog.policies.set"), "Nobody has a role here."));
		}
	}
	root.append(h("h2", {}, "Accounts"), place);
	await draw();
}
