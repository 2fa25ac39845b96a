/** Redis, or a server that speaks as it does, with a password, on a free port, keeping what it is told at once. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { runTool } from '../cache.ts'
import type { ContainerSpec } from '../containers.ts'
import { machineVersion } from '../machine-version.ts'
import { startNative } from '../native-process.ts'
import type { ServerKind, StackServer } from '../server.ts'

const READY_MS = 120_000
const PASSWORD = 'for-tests-alone'

export const redis: ServerKind = {
  name: 'Redis',
  variable: 'SLUICE_TEST_REDIS_URL',
  version: redisVersion,
  start: async (folder) => startRedisLike('redis', await redisCommand(), folder),
}

const OPTIONS = [
  ...['--requirepass', PASSWORD],
  ...['--appendonly', 'yes', '--appendfsync', 'always', '--save', '', '--daemonize', 'no'],
]

/** The image is one of Valkey, which speaks as Redis does. */
export const redisContainer: ContainerSpec = {
  service: 'redis',
  // The conformance suite, which does not sit beside it, restarts it: for that it must know its own path.
  command: ['sh', '-c', 'exec "$(command -v valkey-server)" "$@"', 'sh', ...OPTIONS, '--enable-debug-command', 'yes'],
  env: {},
  port: 6379,
  address: (host, port) => ({ SLUICE_TEST_REDIS_URL: urlOf(host, port) }),
  ready: (address) => answers(address['SLUICE_TEST_REDIS_URL'] ?? ''),
}

const urlOf = (host: string, port: number): string => `redis://default:${PASSWORD}@${host}:${port}`

/** Debian's server: it is in no index of packages for languages. */
export async function redisCommand(): Promise<string> {
  const found = await runTool('sh', ['-c', 'command -v redis-server']).catch(() => null)
  if (found !== null) return found.trim()
  await runTool('apt-get', ['install', '--yes', '--no-install-recommends', 'redis-server'], {
    // The package would start a server of its own.
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
  })
  return (await runTool('sh', ['-c', 'command -v redis-server'])).trim()
}

/** Of the server that is installed, or else would be. */
export async function redisVersion(): Promise<string> {
  const own = await machineVersion('redis-server')
  const text = own === 'absent' ? await machineVersion('apt-cache', ['policy', 'redis-server']) : own
  return /\d+\.\d+\.\d+/.exec(text)?.[0] ?? 'absent'
}

export async function startRedisLike(
  name: string,
  command: string,
  folder: string,
  options: readonly string[] = [],
  port: number | null = null,
): Promise<StackServer & { readonly pid: number }> {
  await mkdir(folder, { recursive: true })
  port ??= await freePort()
  const url = urlOf('127.0.0.1', port)
  const running = await startNative({
    name,
    command,
    args: [
      ...['--bind', '127.0.0.1', '--port', String(port), '--dir', folder, ...OPTIONS],
      // The conformance suite restarts it.
      ...['--enable-debug-command', 'local', ...options],
    ],
    logFile: join(folder, `${name}.log`),
    ready: () => answers(url),
    readyTimeoutMs: READY_MS,
  })
  return { env: { SLUICE_TEST_REDIS_URL: url }, pid: running.pid, stop: () => running.stop() }
}

async function answers(url: string): Promise<boolean> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return (await client.ping()) === 'PONG'
  } finally {
    client.disconnect()
  }
}

export default redis
