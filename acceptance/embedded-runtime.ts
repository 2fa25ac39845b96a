/**
 * An embedded runtime on a folder of its own, and a PostgreSQL to take data from. Run as a program it prints the
 * variables that name both (see `deployment.ts`) as JSON on one line, and ends when its standard input does.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatAddress } from '../runtime/src/database/address.ts'
import { placeTestCluster, startThrowawayServer } from '../runtime/src/database/testing.ts'

const launcher = join(import.meta.dirname, '../runtime/bin/sluice.js')
const END_WITH_TEST = join(import.meta.dirname, '../test/crash/end-with-test.js')
const START_MS = 300_000
/** Requests a minute: tests come from one address, and some from one tenant. */
const RATE = process.env['SLUICE_ACCEPTANCE_RATE'] ?? '5000'

export interface EmbeddedRuntime {
  readonly env: Readonly<Record<string, string>>
  /** Kills it without a word, and starts it again at the same address. */
  crash(): Promise<void>
  /** The processes that it has made. */
  children(): readonly ChildOf[]
  stop(): Promise<void>
}

export interface ChildOf {
  readonly pid: number
  /** Its words, with spaces between them. */
  readonly command: string
}

export async function startEmbeddedRuntime(): Promise<EmbeddedRuntime> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-acceptance-'))
  const data = join(folder, 'data')
  const source = await startThrowawayServer({ keepsProcessAlive: true })
  await placeTestCluster(data)
  let child = start(data, '0')
  const end = async (signal: NodeJS.Signals) => {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    // One that a fault point has ended has a signal in place of a code.
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill(signal)
    await ended
  }
  const stop = async () => {
    await end('SIGTERM')
    await source.stop()
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const env = {
      SLUICE_ACCEPTANCE_URL: await addressOf(data, () => child.exitCode),
      SLUICE_ACCEPTANCE_SOURCE: formatAddress(source.tcpAddress),
      SLUICE_ACCEPTANCE_TOKENS: `${process.execPath} ${launcher} token --data-dir ${data}`,
      SLUICE_ACCEPTANCE_KEYS: data,
    }
    const crash = async () => {
      await end('SIGKILL')
      await rm(join(data, 'runtime.json'), { force: true })
      child = start(data, new URL(env.SLUICE_ACCEPTANCE_URL).port)
      await addressOf(data, () => child.exitCode)
    }
    return { env, crash, children: () => childrenOf(child.pid), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

function start(data: string, port: string): ChildProcess {
  const program = ['--import', END_WITH_TEST, launcher, 'start', '--data-dir', data, '--port', port]
  return spawn(process.execPath, program, {
    stdio: ['ignore', 'ignore', 'inherit'],
    detached: true,
    env: {
      ...process.env,
      TEST_PROCESS_ID: String(process.pid),
      SLUICE_LOG__LEVEL: 'error',
      SLUICE_LIMITS__RATE__STANDARD: RATE,
      SLUICE_LIMITS__RATE__ADDRESS: RATE,
      SLUICE_LIMITS__RATE__FREE: RATE,
      SLUICE_LIMITS__SCHEDULE_INTERVAL_MS: '1000',
    },
  })
}

async function addressOf(data: string, exitCode: () => number | null): Promise<string> {
  const deadline = Date.now() + START_MS
  while (Date.now() < deadline) {
    if (exitCode() !== null) throw new Error(`the server ended with ${exitCode()}`)
    const text = await readFile(join(data, 'runtime.json'), 'utf8').catch(() => null)
    if (text) return (JSON.parse(text) as { url: string }).url
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('the server did not start in time')
}

if (import.meta.main) {
  const runtime = await startEmbeddedRuntime()
  const stop = async () => {
    await runtime.stop()
    process.exit(0)
  }
  process.stdin.on('end', () => void stop()).resume()
  process.on('SIGTERM', () => void stop()).on('SIGINT', () => void stop())
  process.stdout.write(`${JSON.stringify(runtime.env)}\n`)
}

/** Of a process that runs here; what has just ended is left out. */
function childrenOf(pid: number | undefined): readonly ChildOf[] {
  const pids = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')
  return pids.filter(Boolean).flatMap((child) => {
    try {
      return { pid: Number(child), command: readFileSync(`/proc/${child}/cmdline`, 'utf8').replaceAll('\0', ' ') }
    } catch {
      return []
    }
  })
}
