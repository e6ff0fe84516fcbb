// ports.ts - servers that run in a sandbox, reached from outside.
import { operations, type LinkPortReply, type Port } from "./api.js";
import { type Owner } from "./commands.js";
import { SandboxError } from "./errors.js";
import { describeAddress, given, pathOf } from "./wire.js";

/** Ports of the sandbox's own loopback that its processes listen on. */
export class Ports {
    readonly #owner: Owner;

    /** @internal */
    constructor(owner: Owner) {
        this.#owner = owner;
    }

    /** The numbers of the ports that are listened on now. */
    async list(): Promise<number[]> {
        const reply = await this.#owner.client.call<{ ports: Port[] }>(operations.listPorts,
            { path: pathOf(operations.listPorts, { id: this.#owner.id }) });
        return reply.ports.map(({ port }) => port);
    }

    /**
     * An address below which the server on this port answers, for a limited time (at most, and by default, the
     * server's SANDBOX_LINK_TIME). Everyone who has it may use it: it needs no key, and opens this port only.
     */
    async url(port: number, options: { path?: string; seconds?: number } = {}): Promise<string> {
        const address = await this.#owner.client.address();
        if (address.socketPath !== undefined) {
            throw new SandboxError(`the server is reached by ${describeAddress(address)}, which addresses of the web cannot name; `
                + `run 'bailey port -s ${this.#owner.id} ${port}', or use a server with an address (bailey serve)`, "no_address");
        }
        const link = await this.#owner.client.call<LinkPortReply>(operations.linkPort, {
            path: pathOf(operations.linkPort, { id: this.#owner.id }), body: given({ port, seconds: options.seconds }),
        });
        return `${describeAddress(address)}${link.url}${(options.path ?? "").replace(/^\/+/, "")}`;
    }
}
