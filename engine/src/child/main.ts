import { flushCompileCache } from 'node:module'
import { fromDriver } from '../driver-error.ts'
import type { ChildJob, ToChild } from '../protocol.ts'
import { openNative } from '../walls/shut-in.ts'
import { requireWalls } from '../walls/walls.ts'
import { toWireError } from '../walls/wire-error.ts'
import { openDuckDb } from './duckdb.ts'
import { putUpWalls } from './put-up-walls.ts'
import { runJob } from './run-job.ts'
import { tellOver } from './tell.ts'

/** The child's life: warm up, take one job, answer, end. */

// The parent is gone; nobody wants the result, and DuckDB's threads must not keep the process.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))

const send = tellOver((process.channel as unknown as { readonly fd: number }).fd)

process.umask(0o022)
const native = openNative()
const connection = await openDuckDb()
// Now, because a child that is killed writes nothing, and behind the walls none can.
flushCompileCache()
// What the environment held has been used: a tenant's child has none.
for (const name of Object.keys(process.env)) delete process.env[name]
process.once('message', (message: ToChild) => {
  // Settles every job: `serve` answers failures instead of throwing them.
  void serve(message.job)
})
send({ kind: 'ready' })

async function serve(job: ChildJob): Promise<void> {
  try {
    const { job: walled, walls } = await putUpWalls(job, native)
    if (job.trust === 'tenant') {
      send({ kind: 'walls', walls })
      requireWalls(walls, job.neededWalls)
    }
    await runJob(connection, walled, send)
  } catch (error) {
    send({ kind: 'failed', error: toWireError(fromDriver(error, null)) })
  }
}
