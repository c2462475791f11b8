// What the plain servers need to serve HTTP at 127.0.0.1: a session for each `initialize`, with the SDK's transport.
import { randomUUID } from 'node:crypto';

/** The port to serve HTTP at; without it, a plain server is one on stdio. */
export const port = Number(process.env.PORT);

/** The hosts and origins that the SDK is told to accept. */
export const allowed = { hosts: [`127.0.0.1:${port}`], origins: [`http://127.0.0.1:${port}`] };

/**
 * The sessions of a server. `create` connects a new server to a transport with these options, and returns the transport.
 * Returns a function from a session id to its transport: a new one without an id, none for an unknown id.
 */
export function sessions(create) {
    const open = new Map();
    return async id => {
        if (id) return open.get(id);
        const transport = await create({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: id => void open.set(id, transport),
            onsessionclosed: id => void open.delete(id)
        });
        return transport;
    };
}
