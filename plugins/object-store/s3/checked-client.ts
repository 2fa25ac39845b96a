/** The driver, for the lake and for the connector that reads files: its parser takes a list of objects that was cut for a shorter one. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { Client } from 'minio'

/** Throws a plain Error for a list without its end: what is missing of it would be taken for gone. */
export class CheckedClient extends Client {
  override async makeRequestAsync(...request: Parameters<Client['makeRequestAsync']>): Promise<IncomingMessage> {
    const answer = await super.makeRequestAsync(...request)
    if (!request[0].query?.includes('list-type=2')) return answer
    const body = await text(answer)
    if (!body.trimEnd().endsWith('</ListBucketResult>')) throw new Error('a list of objects was cut')
    return Readable.from([Buffer.from(body)]) as IncomingMessage
  }
}
