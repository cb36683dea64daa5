// Who may do what: the policy of one resource. What comes from the project or the server adds to it.

import { ask, button, cell, code, empty, get, h, note, pathOf, post, rowActs, rowName, section, table, whoAmI } from "../kit.js";

let roles;

export async function policyCard(title, read, write, mayChange, nothing) {
	const card = section(title);
	roles ??= (await get("/v1/roles")).roles?.map((role) => role.name) ?? [];
	const draw = async () => {
		const policy = await read();
		const bindings = policy.bindings ?? [];
		const change = async (next) => { await write({ bindings: next.filter((one) => one.members.length), etag: policy.etag }); await draw(); };
		const grant = () => ask({ title: "Grant a role", label: "Grant", done: "Granted.", fields: [
			{ name: "member", label: "Member", required: true, mono: true, placeholder: "user:ada@example.com", hint: "user:, serviceAccount:, group:, allUsers or allAuthenticatedUsers" },
			{ name: "role", label: "Role", required: true, value: "roles/pubsub.viewer", suggestions: roles }],
			act: ({ member, role }) => change([...bindings.filter((one) => one.role !== role),
				{ role, members: [...new Set([...(bindings.find((one) => one.role === role)?.members ?? []), member])] }]) });
		const revoke = ({ member, role }) => ask({ title: "Take the role away?", lead: `${member} loses ${role} here.`, label: "Take away", danger: true, done: "Taken away.",
			act: () => change(bindings.map((one) => (one.role === role ? { role, members: one.members.filter((other) => other !== member) } : one))) });
		card.replaceChildren(card.firstChild, table(title, [
			rowName("Member", (row) => row.member),
			cell("Role", (row) => code(row.role)),
			rowActs((row) => (mayChange ? button("Take away", () => revoke(row), "quiet small") : "")),
		], bindings.flatMap(({ role, members }) => members.map((member) => ({ role, member }))), empty("Nothing is granted here.", nothing)),
		mayChange ? h("p", { class: "below" }, button("Grant a role", grant, "small")) : "");
	};
	try { await draw(); } catch (error) { card.append(note(error.message)); }
	return card;
}

export async function permissions(name, collection, may) {
	if (!may(`pubsub.${collection}.getIamPolicy`)) return h("span", { hidden: true });
	return policyCard("Permissions", () => get(`${pathOf(name)}:getIamPolicy`), (policy) => post(`${pathOf(name)}:setIamPolicy`, { policy }), may(`pubsub.${collection}.setIamPolicy`),
		whoAmI().auth === "required" ? "Roles of the project and of the server hold all the same." : "This server does not ask who calls, so everybody may do everything.");
}
