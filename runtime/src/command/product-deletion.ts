/** `sluice product delete`: what cannot be brought back is named twice by who types; a script has said what it means. */
import { UsageError } from './arguments.ts'
import { type CommandCall, gone, segment, word } from './command.ts'
import { type Asking, askingAt, confirmed } from './confirmation.ts'

/** Throws where it is not confirmed, before anything is asked of the server. */
export async function deleteProduct(call: CommandCall, asking: Asking = askingAt()): Promise<string> {
  const name = word(call, 0, 'PRODUCT')
  await confirm(name, call.args.flags['confirm'], asking)
  const { abandon } = call.args.flags
  const query = typeof abandon === 'string' ? `?abandon=${encodeURIComponent(abandon)}` : ''
  await (await call.client()).request('DELETE', `/api/v1/products/${segment(call, 0, 'PRODUCT')}${query}`)
  return gone(call, `The product ${name} is gone.`)
}

async function confirm(name: string, said: string | undefined, asking: Asking): Promise<void> {
  if (said === name) return
  if (said === undefined && !asking.isTerminal) return
  if (said !== undefined) throw new UsageError(`--confirm ${said} is not the product that is to be deleted, ${name}`)
  const wanted = {
    question: `${name}: removed with every copy of its data. Type ${name} to do so: `,
    answers: [name.toLowerCase()],
    flag: `confirm ${name}`,
    does: 'deletes it without asking',
  }
  if (!(await confirmed(asking, wanted))) throw new Error('nothing was done: it was not confirmed')
}
