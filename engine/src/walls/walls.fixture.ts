import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execute, openDuckDb } from '../child/duckdb.ts'
import { putUpWalls } from '../child/put-up-walls.ts'
import type { ChildJob } from '../protocol.ts'
import { openNative } from './shut-in.ts'

/**
 * A child of which a tenant has taken over everything: no guard, no DuckDB settings. It puts up its walls and then
 * tries what a tenant must not be able to do; it sends what came of each try.
 */

const planted = join(tmpdir(), `planted-${process.pid}`)
const native = openNative()
const connection = await openDuckDb()
const openThreads = readdirSync('/proc/self/task').length

process.once('message', async ({ job, secret, dir }: { job: ChildJob; secret: string; dir: string }) => {
  const { job: walled, walls } = await putUpWalls(job, native)
  const socket = native?.libc.func('int socket(int family, int type, int protocol)')
  const kill = native?.libc.func('int kill(int pid, int signal)')
  const system = native?.libc.func('int system(const char *command)')
  const tries: Record<string, () => unknown> = {
    'read a secret': () => readFileSync(secret, 'utf8'),
    'read a secret on the pool': () => readFile(secret, 'utf8'),
    'read a secret with DuckDB': () => readWithDuckDb(secret),
    'read /etc/passwd with DuckDB': () => readWithDuckDb('/etc/passwd'),
    'read a secret with many threads of DuckDB': async () => {
      await execute(connection, 'SET threads = 4')
      await execute(connection, `SELECT count(*) FROM read_csv(['${secret}', '${secret}', '${secret}', '${secret}'])`)
    },
    'list the folder': () => readdirSync(dir),
    'write beside the secret': () => writeFileSync(`${dir}/planted`, 'x'),
    'write to the folder for temporary files': () => writeFileSync(planted, 'x'),
    'copy out with DuckDB': () => execute(connection, `COPY (SELECT 1) TO '${dir}/planted.csv'`),
    'make a socket': () => check(socket?.(2, 1, 0)),
    'fetch a page': () => fetch('http://127.0.0.1:9/'),
    'signal the parent': () => check(kill?.(process.ppid, 0)),
    'run a program': () => check(-Number(system?.('true'))),
    'become root': () => process.setuid?.(0),
    'read the parent’s environment': () => readFileSync(`/proc/${process.ppid}/environ`, 'utf8'),
    'read its own file': () => readFileSync(walled.tables[0]?.files[0] ?? '', 'utf8').length,
    'read its own file with DuckDB': () =>
      execute(connection, `SELECT * FROM read_parquet('${walled.tables[0]?.files[0]}')`),
  }
  const outcome: Record<string, string> = {}
  for (const [name, attempt] of Object.entries(tries)) {
    try {
      await attempt()
      outcome[name] = 'done'
    } catch {
      outcome[name] = 'refused'
    }
  }
  const left = existsSync(planted)
  process.send?.({ walls, outcome, environment: Object.keys(process.env), user: process.getuid?.(), openThreads, left })
})
process.send?.('ready')

async function readWithDuckDb(path: string): Promise<void> {
  const rows = await (await connection.run(`SELECT content FROM read_text('${path}')`)).getRows()
  if (rows.length === 0) throw new Error('refused')
}

function check(result: number | bigint | undefined): void {
  if (result === undefined || Number(result) < 0) throw new Error('refused')
}
