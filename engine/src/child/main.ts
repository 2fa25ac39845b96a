import { flushCompileCache } from 'node:module'
import { fromDriver } from '../driver-error.ts'
import type { ChildJob, ChildRequest, ChildStatement, ToChild } from '../protocol.ts'
import { openNative } from '../walls/shut-in.ts'
import { leaveSignalsToParent } from '../walls/signals.ts'
import { requireWalls } from '../walls/walls.ts'
import { toWireError } from '../walls/wire-error.ts'
import { openDuckDb } from './duckdb.ts'
import { putUpWalls } from './put-up-walls.ts'
import { runJob, runRequest, runStatement } from './run-job.ts'
import { tellOver } from './tell.ts'

/** The child's life: warm up, take one job, answer, end; before that, take what else is asked of a child that stays. */

// The parent is gone; nobody wants the result, and DuckDB's threads must not keep the process.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
leaveSignalsToParent()

const send = tellOver((process.channel as unknown as { readonly fd: number }).fd)

process.umask(0o022)
const native = openNative()
const connection = await openDuckDb()
// Now, because a child that is killed writes nothing, and behind the walls none can.
flushCompileCache()
// What the environment held has been used: a tenant's child has none.
for (const name of Object.keys(process.env)) delete process.env[name]
// Each waits for the one before. It settles always: failures are answered instead of being thrown.
let last: Promise<ChildJob | null> = Promise.resolve(null)
/** What the walls leave open; null: they are not up yet. */
let openFor: Pick<ChildJob, 'grounds'> | null = null
process.on('message', (message: ToChild) => {
  last = last.then((job) => {
    if (message.kind === 'job') return serve(message.job)
    return message.kind === 'statement' ? state(job, message.statement) : answer(job, message.request)
  })
})
send({ kind: 'ready' })

/** The job as it stands behind the walls; null where it failed. */
async function serve(job: ChildJob): Promise<ChildJob | null> {
  try {
    if (openFor !== null) return await serveNext(openFor, job)
    openFor = job
    const { job: walled, walls } = await putUpWalls(job, native)
    if (job.trust === 'tenant') {
      send({ kind: 'walls', walls })
      requireWalls(walls, job.neededWalls)
    }
    await runJob(connection, walled, send, { isFirst: true })
    return walled
  } catch (error) {
    send({ kind: 'failed', error: toWireError(fromDriver(error, null)) })
    return null
  }
}

/** Another own job over the same folders. */
async function serveNext({ grounds }: Pick<ChildJob, 'grounds'>, job: ChildJob): Promise<ChildJob> {
  const isSame = grounds !== null && JSON.stringify(job.grounds) === JSON.stringify(grounds)
  if (!isSame || job.trust !== 'own')
    throw new Error('an engine process was given a job over other folders than its own')
  await runJob(connection, job, send, { isFirst: false })
  return job
}

/** Another statement of a tenant's, who has the same tables; null where it failed, as the parent ends this process then. */
async function state(job: ChildJob | null, statement: ChildStatement): Promise<ChildJob | null> {
  if (job === null || job.mark === null) return null
  try {
    await runStatement(connection, job, statement, send)
    return job
  } catch (error) {
    send({ kind: 'failed', error: toWireError(fromDriver(error, null)) })
    return null
  }
}

async function answer(job: ChildJob | null, request: ChildRequest): Promise<ChildJob | null> {
  // The parent asks for nothing where the job has failed, or is a tenant's.
  if (!job?.stays || job.trust !== 'own') return job
  try {
    send(await runRequest(connection, job, request))
  } catch (error) {
    send({ kind: 'refused', error: toWireError(fromDriver(error, null)) })
  }
  return job
}
