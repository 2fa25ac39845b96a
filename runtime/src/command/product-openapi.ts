/** `sluice product openapi PRODUCT`: the document; in a file as the server gives it, sign by sign. */
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { type CommandCall, word } from './command.ts'
import { pathOf } from './product-files.ts'
import { refuseUnwritable, save } from './saved-answer.ts'
import { plain } from './text-table.ts'

export async function openApiCommand(call: CommandCall): Promise<unknown> {
  const { out, json } = call.args.flags
  const product = word(call, 0, 'PRODUCT')
  const path = `${pathOf(product)}/openapi.json`
  if (out === undefined) return (await call.client()).request('GET', path)
  await refuseUnwritable(out)
  const response = await (await call.client()).open('GET', path, undefined, 'application/json')
  await save(Readable.fromWeb(response.body as ReadableStream), out)
  return json ? { file: out, product } : `${plain(out)} says what you can do with ${plain(product)}.`
}
