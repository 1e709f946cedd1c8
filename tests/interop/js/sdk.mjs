// What the versions of the JavaScript A2A SDK have in common: how a client is made, and the calls that differ in their types only. A
// version brings these as messageOf, taskOf and eventOf.

import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';

export class Kit {
  // fetchImpl replaces fetch for requests.
  static async connect(url, binding, fetchImpl) {
    const transports = [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })];
    const only = transports.filter((transport) => transport.protocolName === binding);
    const sdk = new this();
    sdk.client = await new ClientFactory({ transports: only }).createFromUrl(url);
    return sdk;
  }

  async *stream(said, task) {
    for await (const event of this.client.sendMessageStream(this.messageOf(said, task))) yield this.eventOf(event);
  }

  async get(id) {
    return this.taskOf(await this.client.getTask({ id }));
  }

  async cancel(id) {
    return this.taskOf(await this.client.cancelTask({ id }));
  }

  async *join(id) {
    for await (const event of this.client.resubscribeTask({ id })) yield this.eventOf(event);
  }
}
