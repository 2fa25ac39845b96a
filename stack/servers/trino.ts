/** Trino, from Maven's tarball: the plugins that the tests use, small in memory, with dynamic catalogs. */
import { glob, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { TrinoClient } from '../../plugins/analytics/trino/client.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { installed, runTool } from '../cache.ts'
import { javaCommand, javaVersion } from '../java.ts'
import { mavenFile } from '../maven.ts'
import { type NativeProcess, startNative } from '../native-process.ts'
import type { ServerKind } from '../server.ts'

const VERSION = '476'
const MINIMUM_JAVA = 24
/** The PostgreSQL plugin cannot be loaded without `geospatial`. */
const PLUGINS: ReadonlySet<string> = new Set(['iceberg', 'opa', 'postgresql', 'geospatial', 'memory', 'tpch'])
const READY_MS = 240_000

/** Together below 2 GB. The first compiler alone: these servers live for minutes. */
const JVM_FLAGS = [
  '-Xmx1400m',
  '-XX:MaxDirectMemorySize=200m',
  '-XX:MaxMetaspaceSize=400m',
  '-XX:ReservedCodeCacheSize=160m',
  '-XX:TieredStopAtLevel=1',
  '-XX:+UseSerialGC',
  '-XX:+ExitOnOutOfMemoryError',
  '-XX:-OmitStackTraceInFastThrow',
  '-XX:+IgnoreUnrecognizedVMOptions',
  '--sun-misc-unsafe-memory-access=allow',
  '--enable-native-access=ALL-UNNAMED',
  '-Djdk.attach.allowAttachSelf=true',
  '-Dfile.encoding=UTF-8',
  '-Duser.timezone=UTC',
]

export interface TrinoOptions {
  /** Empty, and the caller's to remove. */
  readonly folder: string
  readonly port: number
  /** Added to etc/config.properties. */
  readonly config?: Readonly<Record<string, string>>
  /** Of etc/access-control.properties; without it everybody may do everything. */
  readonly accessControl?: Readonly<Record<string, string>>
  /** What catalogs may refer to as `${ENV:NAME}`. */
  readonly env?: Readonly<Record<string, string>>
}

export interface RunningTrino extends NativeProcess {
  readonly url: string
}

/** Resolves when the server has told that it is started; no catalog is there. */
export async function startTrino(options: TrinoOptions): Promise<RunningTrino> {
  const [home, java] = await Promise.all([trinoHome(), javaCommand(MINIMUM_JAVA)])
  const url = `http://127.0.0.1:${options.port}`
  await writeSettings(options, home, url)
  const running = await startNative({
    name: 'Trino',
    command: java,
    args: [...JVM_FLAGS, '-Dconfig=etc/config.properties', '-Dlog.levels-file=etc/log.properties', ...main(home)],
    cwd: options.folder,
    env: { ...process.env, ...options.env },
    logFile: join(options.folder, 'server.log'),
    ready: () => isStarted(url),
    readyTimeoutMs: READY_MS,
  })
  return { ...running, url }
}

const main = (home: string): readonly string[] => ['-cp', join(home, 'lib/*'), 'io.trino.server.TrinoServer']

async function isStarted(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/v1/info`, { signal: AbortSignal.timeout(5_000) })
  return answer.ok && ((await answer.json()) as { readonly starting: boolean }).starting === false
}

async function writeSettings({ folder, port, config, accessControl }: TrinoOptions, home: string, url: string) {
  await mkdir(join(folder, 'etc/catalog'), { recursive: true })
  const settings = {
    'node.environment': 'test',
    'node.bind-ip': '127.0.0.1',
    'node.internal-address': '127.0.0.1',
    'plugin.dir': join(home, 'plugin'),
    'node-scheduler.include-coordinator': 'true',
    'http-server.http.port': String(port),
    'discovery.uri': url,
    'catalog.management': 'dynamic',
    'catalog.store': 'file',
    'query.max-memory': '300MB',
    'query.max-memory-per-node': '300MB',
    'memory.heap-headroom-per-node': '200MB',
    'task.concurrency': '2',
    'task.max-worker-threads': '4',
    'query.min-expire-age': '15s',
    'query.max-history': '10',
    ...config,
  }
  await writeFile(join(folder, 'etc/config.properties'), properties(settings))
  await writeFile(join(folder, 'etc/log.properties'), properties({ 'io.trino': 'WARN', io: 'WARN', org: 'WARN' }))
  if (accessControl === undefined) return
  await writeFile(join(folder, 'etc/access-control.properties'), properties(accessControl))
}

function properties(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}

function trinoHome(): Promise<string> {
  return installed(`trino-${VERSION}`, async (folder, signal) => {
    const archive = await mavenFile(`io.trino:trino-server:${VERSION}:tar.gz`, folder, signal)
    await runTool('tar', ['-xzf', archive, '-C', folder, '--strip-components=1'])
    await rm(archive)
    // All are extracted first: files of the plugins that stay may be links to those of others.
    for await (const plugin of glob(join(folder, 'plugin/*'))) {
      if (!PLUGINS.has(plugin.split('/').at(-1) ?? '')) await rm(plugin, { recursive: true })
    }
  })
}

export const trino: ServerKind = {
  name: `Trino ${VERSION}`,
  variable: 'SLUICE_TEST_TRINO_URL',
  prepare: trinoHome,
  version: () => javaVersion(MINIMUM_JAVA),
  async start(folder) {
    await mkdir(folder, { recursive: true })
    const running = await startTrino({ folder, port: await freePort() })
    // The first statement loads what all others use, for half a minute on a busy machine: longer than a store waits for it.
    const client = new TrinoClient({ url: running.url, catalog: {} })
    try {
      await client.rows({ sql: 'SELECT 1', maxRows: 1, timeoutMs: READY_MS })
    } catch (error) {
      await running.stop()
      throw error
    }
    return { env: { SLUICE_TEST_TRINO_URL: running.url }, stop: () => running.stop() }
  },
}

export default trino
