import type { DuckDBConnection } from '@duckdb/node-api'
import { unsupported } from '@sluice/sdk'
import { fromDriver } from '../driver-error.ts'
import type { ChildJob, FromChild, WireResult, WireStep } from '../protocol.ts'
import { fromWire } from '../protocol.ts'
import { collectRows } from './collect.ts'
import { execute, prepare } from './duckdb.ts'
import { writeOutput } from './output.ts'
import { openRelations } from './relations.ts'
import { lockSettings } from './settings.ts'

/** Runs the job's statements in order and says what came of them. The parent ends this process afterwards. */
export async function runJob(
  connection: DuckDBConnection,
  job: ChildJob,
  send: (message: FromChild) => void,
): Promise<void> {
  if (job.trust === 'tenant') throw unsupported('statements of tenants before the guard is in place')
  await openRelations(connection, job)
  await lockSettings(connection, job)
  const results: WireResult[] = []
  for (const step of job.steps) {
    const result = await runStep(connection, step)
    if (result) results.push(result)
  }
  if (!job.output) {
    send({ kind: 'opened', results, columns: [] })
    send({ kind: 'done', rows: 0, truncated: false, files: [] })
    return
  }
  const done = await writeOutput(connection, job.output, job.limits, (columns) => {
    send({ kind: 'opened', results, columns })
  })
  send({ kind: 'done', ...done })
}

async function runStep(connection: DuckDBConnection, step: WireStep): Promise<WireResult | null> {
  const parameters = step.parameters.map(fromWire)
  try {
    if (step.collect) return await collectRows(await prepare(connection, step.sql, parameters), step.maxRows)
    await execute(connection, step.sql, parameters)
    return null
  } catch (error) {
    throw fromDriver(error, step.sql)
  }
}
