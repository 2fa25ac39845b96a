/** A process whose log goes where its parent says, and which answers as long as it serves. */
import type { Config } from '../config.ts'
import { createLogger } from './logger.ts'

export interface Order {
  readonly from: number
  readonly lines: number
  /** To end, with a last line: by itself, or by an error that nobody catches. */
  readonly end?: 'exit' | 'crash'
}

const logger = await createLogger({ level: 'info', pretty: false, access: false } as unknown as Config['log'])
const text = 'x'.repeat(900)

process.on('message', ({ from, lines, end }: Order) => {
  for (let at = 0; at < lines; at++) logger.info(text, { at: from + at })
  if (end === undefined) process.send?.({ dropped: logger.dropped() })
  else endWith(end)
})
process.send?.('ready')

function endWith(end: 'exit' | 'crash'): void {
  logger.error('last words')
  process.disconnect()
  if (end === 'exit') process.exit()
  // After the answer to the parent, as most failures come.
  setImmediate(() => {
    throw new Error('nobody catches this')
  })
}
