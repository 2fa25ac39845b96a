/**
 * To be loaded before a runtime: writes what each statement of a run begins with to the file that SLUICE_TEST_STATEMENTS names. What
 * belongs to a run is told by who has called for it; reports of progress, whose number is the clock's, do not.
 */
import { appendFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

const file = process.env.SLUICE_TEST_STATEMENTS
const OF_A_RUN = /#run \(.*\/ingestion\/worker\.ts/

if (file && isMainThread) {
  const { default: pg } = await import('pg')
  Error.stackTraceLimit = 60
  // The pool has its statements sent by clients, but not on behalf of who called it.
  for (const { prototype } of [pg.Client, pg.Pool]) {
    const { query } = prototype
    prototype.query = function (config, ...rest) {
      if (OF_A_RUN.test(String(new Error().stack))) {
        const database = this.database ?? this.options.database
        const text = typeof config === 'string' ? config : (config.text ?? 'copy')
        appendFileSync(file, `${database}: ${text.replace(/\s+/g, ' ').trim().slice(0, 100)}\n`)
      }
      return query.call(this, config, ...rest)
    }
  }
}
