/**
 * Measures what rows cost a client of PostgreSQL here, against the PostgreSQL that they came from:
 * `node bench/wire.ts --rows 1000000 --rounds 3`. The same psql reads the same columns from both, by SELECT and by COPY in text and in binary; processor
 * time is that of all processes of the runtime and of the whole server. Then a slow reader takes more rows (`--slow-rows`),
 * and what the runtime's own process has more of memory meanwhile is told.
 */
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { freePort } from '../runtime/src/database/free-port.ts'
import { type Bench, connectSource, deploy, flag, processorS, register, startBench, sync } from './setup.ts'

const rows = Number(flag('rows') ?? 1_000_000)
const rounds = Number(flag('rounds') ?? 3)
const slowRows = Number(flag('slow-rows') ?? 3_000_000)
const COLUMNS = flag('columns') ?? 'id, name, city, amount, quantity, ratio, updated_at'
/** The engine's own keeps one process for the rows and one that waits. */
const SETTLE_MS = 1_000
const SLOW_EVERY_MS = 5

interface Login {
  readonly env: NodeJS.ProcessEnv
  readonly pid: number
  readonly table: string
}

const WAYS = ['select', 'copy', 'binary'] as const

type Spent = Readonly<Record<(typeof WAYS)[number], number>>

const port = await freePort()
process.env['SLUICE_WIRE__PORT'] = String(port)
process.env['SLUICE_LIMITS__QUERY_TIMEOUT_MS'] = '3600000'
const bench = await startBench(rows)
try {
  await connectSource(bench)
  await register(bench)
  await deploy(bench, '1.0.0', '  - type: analytics\n')
  await sync(bench)
  const both = [wireOf(bench), sourceOf(bench)] as const
  // First, while the process has kept nothing of earlier rows.
  await readSlowly(both[0])
  for (const login of both) await spentBy(login)
  const spent: (readonly [Spent, Spent])[] = []
  for (let round = 0; round < rounds; round += 1) spent.push([await spentBy(both[0]), await spentBy(both[1])])
  for (const way of WAYS) {
    const ratios = spent.map(([own, other]) => own[way] / other[way]).sort((left, right) => left - right)
    const each = spent.map(([own, other]) => `${own[way].toFixed(2)}/${other[way].toFixed(2)}`).join(' ')
    console.log(`${way}: × ${(ratios[rounds >> 1] ?? 0).toFixed(2)} of PostgreSQL's processor time (${each} s)`)
  }
} finally {
  await bench.stop()
}

function wireOf({ token, server }: Bench): Login {
  const env = { PGHOST: '127.0.0.1', PGPORT: String(port), PGDATABASE: 'bench', PGUSER: 'bench', PGPASSWORD: token }
  return { env, pid: server.pid as number, table: 'bench.measured' }
}

function sourceOf({ source }: Bench): Login {
  const { host, port, user, password } = source.tcpAddress
  const env = { PGHOST: host, PGPORT: String(port), PGDATABASE: 'postgres', PGUSER: user, PGPASSWORD: password }
  return { env, pid: source.pid, table: 'public.measured' }
}

async function spentBy(login: Login): Promise<Spent> {
  const select = `SELECT ${COLUMNS} FROM ${login.table}`
  const timed = async (sql: string) => {
    const before = await treeS(login)
    await psql(login, sql)
    // A process counts in its parent once it has ended.
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS))
    return (await treeS(login)) - before
  }
  const copy = `COPY (${select}) TO STDOUT`
  return { select: await timed(select), copy: await timed(copy), binary: await timed(`${copy} (FORMAT binary)`) }
}

function treeS({ pid }: Login): Promise<number> {
  return processorS({ server: { pid } as Bench['server'] })
}

/** Its output is not written anywhere. */
async function psql(login: Login, sql: string): Promise<void> {
  const child = started(login, sql, 'ignore')
  await ended(child)
}

function started({ env }: Login, sql: string, stdout: 'ignore' | 'pipe') {
  return spawn('psql', ['-XAtq', '-c', sql], { env: { ...process.env, ...env }, stdio: ['ignore', stdout, 'inherit'] })
}

function ended(child: ReturnType<typeof started>): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`psql ended with ${code}`))))
  })
}

/** Takes a piece of what psql writes, waits, and takes the next. */
async function readSlowly(login: Login): Promise<void> {
  const before = await residentMb(login.pid)
  let peak = before
  const watch = setInterval(() => void residentMb(login.pid).then((now) => (peak = Math.max(peak, now))), 100)
  const times = Math.ceil(slowRows / rows)
  const child = started(login, `COPY (SELECT ${COLUMNS} FROM ${login.table}, range(${times})) TO STDOUT`, 'pipe')
  const done = ended(child)
  const began = performance.now()
  for await (const _ of child.stdout ?? []) await new Promise((resolve) => setTimeout(resolve, SLOW_EVERY_MS))
  await done
  clearInterval(watch)
  const tookS = (performance.now() - began) / 1000
  console.log(
    `slow reader: ${times * rows} rows in ${tookS.toFixed(0)} s, the runtime's process ${before.toFixed(0)} MB, at most ${(peak - before).toFixed(0)} MB more`,
  )
}

async function residentMb(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+)/m.exec(text)?.[1] ?? 0) / 1024
}
