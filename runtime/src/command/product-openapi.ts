/** `sluice product openapi PRODUCT`: the document as the server gives it, sign by sign. */
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { type CommandCall, word } from './command.ts'
import { pathOf } from './product-files.ts'
import { refuseUnwritable, save } from './saved-answer.ts'
import { plain } from './text-table.ts'

export async function openApiCommand(call: CommandCall): Promise<unknown> {
  const { out, json } = call.args.flags
  const product = word(call, 0, 'PRODUCT')
  if (out !== undefined) await refuseUnwritable(out)
  const client = await call.client()
  const response = await client.open('GET', `${pathOf(product)}/openapi.json`, undefined, 'application/json')
  if (out === undefined) return JSON.parse(await response.text())
  await save(Readable.fromWeb(response.body as ReadableStream), out)
  return json ? { file: out, product } : `${plain(out)} says what you can do with ${plain(product)}.`
}
