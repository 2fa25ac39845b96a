/** `sluice lake compact|expire|clean|check`: the server does it, this asks until all tables were seen. */
import { UsageError } from './arguments.ts'
import type { Command } from './command.ts'
import { printOut } from './output.ts'

const TASKS = ['compact', 'expire', 'clean', 'check']

interface Report {
  readonly tables: readonly Readonly<Record<string, unknown>>[]
  readonly tables_seen: number
  readonly next: string | null
}

export const LAKE_COMMANDS: Readonly<Record<string, Command>> = {
  lake: {
    usage: 'lake compact|expire|clean|check [NAMESPACE.TABLE]',
    summary: 'see to the lake now; check finds broken files',
    remote: true,
    /** Throws where `check` found something, so that the exit code says it. */
    async run(call) {
      const [task = '', table] = call.words
      if (!TASKS.includes(task)) throw new UsageError(`one of ${TASKS.join(', ')} must follow`)
      const client = await call.client()
      const tables: Readonly<Record<string, unknown>>[] = []
      let [seen, after] = [0, null as string | null]
      do {
        const body = { ...(table === undefined ? {} : { table }), ...(after === null ? {} : { after }) }
        const report = (await client.request('POST', `/api/v1/lake/${task}`, body)) as Report
        tables.push(...report.tables)
        seen += report.tables_seen
        after = report.next
      } while (after !== null)
      const result = { task, tables_seen: seen, tables }
      if (task !== 'check' || tables.length === 0) return result
      await printOut(JSON.stringify(result, null, 2))
      throw new Error(`${tables.length} of ${seen} lake tables have problems`)
    },
  },
}
