// A local webhook receiver: stores deliveries by path, and lets steps wait for them.

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';

export async function receiver() {
  const kept = new Map();
  const waiting = new Set();
  const at = (path) => kept.get(path) ?? kept.set(path, []).get(path);

  const server = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request.setEncoding('utf8')) body += piece;
    at(request.url).push({ headers: request.headers, body: JSON.parse(body) });
    response.end();
    for (const check of waiting) check();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    // A new URL without deliveries.
    url: () => `http://127.0.0.1:${server.address().port}/${randomUUID()}`,
    at: (url) => at(new URL(url).pathname),
    // Waits until the deliveries to the URL satisfy a condition; the caller limits the time.
    until(url, satisfied) {
      const deliveries = at(new URL(url).pathname);
      return new Promise((resolve, reject) => {
        const check = () => {
          try {
            if (!satisfied(deliveries)) return;
            resolve(deliveries);
          } catch (error) {
            reject(error);
          }
          waiting.delete(check);
        };
        waiting.add(check);
        check();
      });
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
