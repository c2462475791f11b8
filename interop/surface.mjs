// Shared by the demo servers and the clients in JavaScript: surface.json (or the file in SURFACE) and helpers for it.
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

export const surface = JSON.parse(readFileSync(process.env.SURFACE ?? new URL('surface.json', import.meta.url), 'utf8'));

export const said = text => ({ content: [{ type: 'text', text }] });

export const png = {
    type: 'image',
    mimeType: surface.image.mimeType,
    data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
};

export const names = start => ['Ada', 'Alan', 'Grace'].filter(name => name.startsWith(start ?? ''));

/** Waits in five steps and reports each; an abort ends it at once. */
export async function resting(ms, signal, report) {
    for (let step = 1; step <= 5; step++) {
        await pause(ms / 5, undefined, { signal });
        await report(step, 5);
    }
}

/** The last events of a session's streams, to resume from: what the SDKs ask of a store. */
export class EventStore {
    #events = [];

    async storeEvent(stream, message) {
        this.#events.push({ stream, message });
        return String(this.#events.length - 1);
    }

    async replayEventsAfter(last, { send }) {
        const stream = this.#events[last]?.stream;
        for (const [at, event] of this.#events.entries()) {
            const news = at > Number(last) && event.stream === stream && event.message.jsonrpc; // The first event of a stream is empty.
            if (news) await send(String(at), event.message);
        }
        return stream;
    }
}
