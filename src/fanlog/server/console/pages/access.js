// Who may do what: policies, and accounts with their tokens and keys.

import { all, ask, asking, badge, button, cell, code, creating, deleting, empty, get, h, heading, inform, instant, note, pathOf, post, put, refill, remove, rowActs, rowName, section, show, table, time, whoAmI } from "../kit.js";

let roles;

export async function policyCard(title, read, write, mayChange, nothing) {
	const card = section(title);
	roles ??= (await get("/v1/roles")).roles?.map((role) => role.name) ?? [];
	const draw = async () => {
		const policy = await read();
		const bindings = policy.bindings ?? [];
		const change = async (next) => { await write({ bindings: next.filter((one) => one.members.length), etag: policy.etag }); await draw(); };
		const grant = () => ask({ title: "Grant a role", done: "Granted.", fields: [
			["member", "Member", "mono", { required: true, placeholder: "user:ada@example.com", hint: "user:, serviceAccount:, group:, allUsers or allAuthenticatedUsers" }],
			["role", "Role", "text", { required: true, value: "roles/pubsub.viewer", suggestions: roles }]],
			act: ({ member, role }) => change([...bindings.filter((one) => one.role !== role),
				{ role, members: [...new Set([...(bindings.find((one) => one.role === role)?.members ?? []), member])] }]) });
		const revoke = ({ member, role }) => ask({ title: "Take the role away?", lead: `${member} loses ${role} here.`, label: "Take away", danger: true, done: "Taken away.",
			act: () => change(bindings.map((one) => (one.role === role ? { role, members: one.members.filter((other) => other !== member) } : one))) });
		refill(card, table(title, [
			rowName("Member", "member"),
			cell("Role", (row) => code(row.role)),
			rowActs((row) => (mayChange ? button("Take away", () => revoke(row), "quiet small") : "")),
		], bindings.flatMap(({ role, members }) => members.map((member) => ({ role, member }))), empty("Nothing is granted here.", nothing)),
		mayChange ? h("p.below", button("Grant a role", grant, "small")) : "");
	};
	try { await draw(); } catch (error) { card.append(note(error.message)); }
	return card;
}

export async function permissions(name, collection, may) {
	if (!may(`pubsub.${collection}.getIamPolicy`)) return h("span", { hidden: true });
	return policyCard("Permissions", () => get(`${pathOf(name)}:getIamPolicy`), (policy) => post(`${pathOf(name)}:setIamPolicy`, { policy }), may(`pubsub.${collection}.setIamPolicy`),
		whoAmI().auth === "required" ? "Roles of the project and of the server hold all the same." : "This server does not ask who calls, so everybody may do everything.");
}

const expiry = ["expires", "Expires", "time", { hint: "Empty: the server's longest." }];

function account(found, may, draw) {
	const base = `/v1/accounts/${encodeURIComponent(found.name)}`;
	const change = may("fanlog.accounts.update");
	const until = ({ expires }) => (expires ? { expireTime: instant(expires) } : {});
	const newToken = async () => {
		const made = await ask({ title: `A token for ${found.name}`, label: "Make the token", fields: [expiry], act: (values) => post(`${base}:createToken`, until(values)) });
		if (made) inform("The new token", h("p", "It is shown this once. The server keeps only what it needs to know it again."), h("code.block", made.token));
		return made;
	};
	const newKey = () => ask({ title: `A key of ${found.name}`, label: "Add the key", done: "The key is added.", fields: [["publicKey", "Public key, in PEM", "code", { rows: 6, required: true }], expiry],
		act: (values) => post(`${base}:addKey`, { publicKey: values.publicKey, ...until(values) }) });
	const revoke = ({ what, id }) => ask({ title: `Revoke the ${what} ${id}?`, danger: true, lead: "Calls with it are refused from now on.", done: "Revoked.",
		act: () => post(`${base}:revoke${what === "token" ? "Token" : "Key"}`, { [`${what}Id`]: id }) });
	const drop = () => deleting("account", found.name, { lead: "Its keys and tokens go with it.", act: () => remove(base) });
	const all = (what, list = []) => list.map((one) => ({ ...one, what }));
	const rows = [...all("token", found.tokens), ...all("key", found.keys)];
	return section(found.name, note(found.email), table(`Tokens and keys of ${found.name}`, [
		rowName("Id", "id", code),
		cell("Kind", "what", badge),
		cell("Made", "createTime", time),
		cell("Expires", (row) => (row.expireTime ? time(row.expireTime) : "never")),
		rowActs((row) => change && asking("Revoke", () => revoke(row), draw, "danger quiet small")),
	], rows, empty("Neither token nor key.", "Nobody can call as this account.")),
	h("div.actions.below", change && [asking("New token", newToken, draw, "small"), asking("Add a key", newKey, draw, "small")], may("fanlog.accounts.delete") && asking("Delete", drop, draw, "danger quiet small")));
}

export async function access({ root, project, may }) {
	const place = h("div.columns");
	const draw = async () => {
		const found = may("fanlog.accounts.list") ? await all("/v1/accounts", "accounts", {}, 500) : [];
		show(place, found.length ? found.map((one) => account(one, may, draw)) : empty("No accounts are shown."));
	};
	const make = () => creating("account", [], ({ id }) => post("/v1/accounts", { name: id }));
	root.append(heading("Access", { note: "Who may call this server, and what they may do.", actions: may("fanlog.accounts.create") && asking("Create an account", make, draw, "primary") }));
	for (const [title, resource] of may("fanlog.policies.get") ? [[`Roles in the project ${project}`, `projects/${project}`], ["Roles on the whole server", "server"]] : []) {
		root.append(await policyCard(title, () => get("/v1/policies", { resource }), (policy) => put("/v1/policies", { resource, policy }), may("fanlog.policies.set"), "Nobody has a role here."));
	}
	root.append(h("h2", "Accounts"), place);
	await draw();
}
