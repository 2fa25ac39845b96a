import { fromDriver, toWireError } from '../driver-error.ts'
import type { ChildJob, FromChild, ToChild } from '../protocol.ts'
import { openDuckDb } from './duckdb.ts'
import { runJob } from './run-job.ts'

/** The child's life: warm up, take one job, answer, end. */

// Before anything uses the pool: its one thread is where DuckDB's calls run, and where the walls must stand.
process.env.UV_THREADPOOL_SIZE = '1'

// The parent is gone; nobody wants the result, and DuckDB's threads must not keep the process.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))

const connection = await openDuckDb()
process.once('message', (message: ToChild) => {
  // Settles every job: `serve` answers failures instead of throwing them.
  void serve(message.job)
})
send({ kind: 'ready' })

async function serve(job: ChildJob): Promise<void> {
  try {
    await runJob(connection, job, send)
  } catch (error) {
    send({ kind: 'failed', error: toWireError(fromDriver(error, null)) })
  }
}

function send(message: FromChild): void {
  process.send?.(message)
}
