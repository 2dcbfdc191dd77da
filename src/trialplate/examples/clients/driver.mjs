// Drive `trialplate serve` with a policy of your own. Node 18 or later, no packages; docs/wire.md has every message.
//
// node driver.mjs http://127.0.0.1:8712 TOKEN_FILE IDENTITY.json ./my_policy.mjs
// node driver.mjs http://127.0.0.1:8712 TOKEN_FILE IDENTITY.json -- python policy_bridge.py arm.py:Arm --weights w.npz
//
// `act(observation)`, exported by the module, returns rows of numbers, or null to stop. What stands behind `--` answers
// lines of JSON instead; its lines are passed on as they are, because JSON.stringify writes -0 as 0.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import http from "node:http";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const PROTOCOL = "trialplate.policy/1";
const UNMETERED = { usage: null, usage_reason: "not_metered", latency_ms: null, latency_ms_reason: "not_metered" };

function call(url, body, token) {
  const headers = { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  if (body !== undefined) headers["Content-Length"] = Buffer.byteLength(body);
  return new Promise((done, failed) => {
    const method = body === undefined ? "GET" : "POST";
    // no agent: a connection that rests while a policy thinks may be gone when it is needed again
    const request = http.request(url, { method, headers, agent: false }, (reply) => {
      const pieces = [];
      reply.on("data", (piece) => pieces.push(piece)).on("error", failed);
      reply.on("end", () => {
        const text = Buffer.concat(pieces).toString("utf8");
        done({ text, message: JSON.parse(text) }); // also an `error`: what the policy did, or the end of the run
      });
    });
    request.on("error", failed).end(body);
  });
}

function fromFunction(act) {
  return async ({ message }) => {
    if (message.type !== "observation") return undefined;
    const { protocol, episode, call_index, observation_id, registration } = message;
    const rows = await act(message);
    const choice = rows === null ? { stop: { reason: null } } : { chunk: { vectors: rows } };
    const echo = { protocol, type: "decision", episode, call_index, observation_id, registration };
    return JSON.stringify({ ...echo, ...choice, ...UNMETERED });
  };
}

function fromLines(child) {
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  child.stdin.on("error", () => {}); // it has ended, and so have its lines
  return async ({ text }) => {
    child.stdin.write(`${text}\n`);
    const { value, done } = await lines.next();
    if (done) throw new Error("the policy has ended");
    return value;
  };
}

async function drive(service, token, registration, answer) {
  const hello = { role: "driver", software: "driver.mjs", encodings: ["json"], max_message_bytes: 2 ** 26 };
  for (const [type, body] of [["hello", hello], ["register", { registration, policy_spec: null }]]) {
    const { message } = await call(`${service}/v1/${type}`, JSON.stringify({ protocol: PROTOCOL, type, ...body }), token);
    if (message.type === "error") return message;
  }
  for (;;) {
    const started = (await call(`${service}/v1/episodes`, "{}", token)).message;
    if (!started.episode) return started;
    const actor = service + started.actor;
    await answer(await call(`${actor}/spec`));
    for (;;) {
      const seen = await call(`${actor}/observe`);
      if (seen.message.type !== "observation") break;
      await call(`${actor}/act`, await answer(seen));
    }
  }
}

const [url, tokenFile, identity, policy, ...command] = process.argv.slice(2);
const child = policy === "--" ? spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] }) : null;
const answer = child ? fromLines(child) : fromFunction((await import(pathToFileURL(resolve(policy)))).act);
const registration = JSON.parse(readFileSync(identity, "utf8"));
const last = await drive(url.replace(/\/$/, ""), readFileSync(tokenFile, "utf8").trim(), registration, answer);
child?.stdin.end();
if (last.reason !== "complete") console.error(`ended with ${JSON.stringify(last)}`);
process.exitCode = last.reason === "complete" ? 0 : 1;
