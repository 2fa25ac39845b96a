import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createEngine } from './engine.ts'

/** A runtime that starts a long job and then waits to be killed. Prints when the job is running. */

const engine = createEngine({
  scratchDir: join(tmpdir(), 'sluice-none'),
  maxChildren: 1,
  warmChildren: 1,
  maxQueued: 1,
})
const limits = { memoryBytes: 512 * 1024 * 1024, timeoutMs: 600_000, threads: 2 }
// The first output says that the statement runs; the second part keeps every thread of the child busy for hours.
const sql = 'SELECT 1 AS x UNION ALL SELECT sum(a.range * b.range)::INTEGER FROM range(10000000000) a, range(1000000) b'
const run = await engine.run({ trust: 'tenant', output: { kind: 'rows', sql }, limits }, AbortSignal.timeout(600_000))
process.stdout.write('running\n')
for await (const _chunk of run.output);
