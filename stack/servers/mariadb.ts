/** MariaDB, Debian's, unpacked into the cache: with TLS, a login for its owner, and a folder of its own. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { installed, runTool } from '../cache.ts'
import { machineVersion } from '../machine-version.ts'
import { startNative } from '../native-process.ts'
import type { ServerKind, StackServer } from '../server.ts'

const READY_MS = 60_000
const PASSWORD = 'for-tests-alone'
/** With what they need and a machine may not have. Not installed: the packages would start a server of their own. */
const PACKAGES = ['mariadb-server-core', 'mariadb-client-core', 'libmariadb3', 'libaio1', 'liburing2']
/** A certificate of an authority of our own, for a name that exists nowhere. */
const TLS_FOLDER = fileURLToPath(new URL('../../plugins/connectors/postgresql/fixture-tls/', import.meta.url))

export const mariadb: ServerKind = {
  name: 'MariaDB',
  variable: 'SLUICE_TEST_MARIADB_URL',
  version: mariadbVersion,
  prepare: mariadbPrograms,
  start: startMariadb,
}

/** Of the packages that there are. */
export async function mariadbVersion(): Promise<string> {
  const text = await machineVersion('apt-cache', ['policy', 'mariadb-server-core'])
  return /Candidate: \S*?(\d+\.\d+\.\d+[^\s]*)/.exec(text)?.[1] ?? 'absent'
}

export interface MariadbPrograms {
  readonly server: string
  readonly client: string
  /** What they are run with. */
  readonly env: NodeJS.ProcessEnv
  /** `usr` of the packages. */
  readonly folder: string
}

export async function mariadbPrograms(): Promise<MariadbPrograms> {
  const root = await installed(`mariadb-${await mariadbVersion()}`, async (folder, signal) => {
    await runTool('apt-get', ['download', ...PACKAGES], { cwd: folder, signal })
    for (const file of await readdir(folder)) {
      if (file.endsWith('.deb')) await runTool('dpkg-deb', ['--extract', join(folder, file), folder], { signal })
    }
  })
  const folder = join(root, 'usr')
  const libraries = (await readdir(join(folder, 'lib'))).find((name) => name.endsWith('-linux-gnu')) ?? ''
  return {
    server: join(folder, 'sbin', 'mariadbd'),
    client: join(folder, 'bin', 'mariadb'),
    env: { ...process.env, LD_LIBRARY_PATH: join(folder, 'lib', libraries) },
    folder,
  }
}

export async function startMariadb(folder: string): Promise<StackServer & { readonly pid: number }> {
  const { server, env, folder: usr } = await mariadbPrograms()
  const data = join(folder, 'data')
  await mkdir(join(data, 'mysql'), { recursive: true })
  const places = [
    ...['--no-defaults', `--user=${userInfo().username}`, `--basedir=${usr}`, `--datadir=${data}`],
    ...[`--lc-messages-dir=${join(usr, 'share', 'mysql')}`, `--plugin-dir=${join(usr, 'lib', 'mysql', 'plugin')}`],
    ...['--innodb-flush-method=fsync', '--innodb-use-native-aio=0'],
  ]
  await makeSystemTables({ server, env, usr, folder }, places)
  const owner = join(folder, 'owner.sql')
  // One statement a line.
  const statements = [
    `CREATE OR REPLACE USER 'owner'@'%' IDENTIFIED BY '${PASSWORD}'`,
    `GRANT ALL ON *.* TO 'owner'@'%' WITH GRANT OPTION`,
  ]
  await writeFile(owner, statements.map((statement) => `${statement};\n`).join(''))
  const port = await freePort()
  const running = await startNative({
    name: 'mariadb',
    command: server,
    args: [
      ...places,
      ...[`--port=${port}`, '--bind-address=127.0.0.1', '--skip-name-resolve', `--socket=${join(folder, 'socket')}`],
      ...[`--pid-file=${join(folder, 'pid')}`, `--init-file=${owner}`, '--character-set-server=utf8mb4'],
      ...['--log-bin=log', '--binlog-format=ROW', '--binlog-row-image=FULL', '--server-id=1', '--sync-binlog=0'],
      ...[
        '--innodb-flush-log-at-trx-commit=2',
        '--max-connections=60',
        '--max-allowed-packet=64M',
        '--performance-schema=0',
      ],
      ...[`--ssl-cert=${TLS_FOLDER}server.pem`, `--ssl-key=${TLS_FOLDER}server.key`],
    ],
    env,
    logFile: join(folder, 'mariadb.log'),
    ready: () => greets(port),
    readyTimeoutMs: READY_MS,
  })
  const url = `mariadb://owner:${PASSWORD}@127.0.0.1:${port}`
  return { env: { SLUICE_TEST_MARIADB_URL: url }, pid: running.pid, stop: () => running.stop() }
}

/** What `mariadb-install-db` does, without looking for the machine's own server. */
async function makeSystemTables(
  { server, env, usr, folder }: { server: string; env: NodeJS.ProcessEnv; usr: string; folder: string },
  places: readonly string[],
): Promise<void> {
  const share = join(usr, 'share', 'mysql')
  // The tables before their rows.
  const names = (await readdir(share))
    .filter((name) => /^(mysql|mariadb)_system_tables(_data)?[.]sql$/.test(name))
    .sort()
  const texts = await Promise.all(names.map((name) => readFile(join(share, name), 'utf8')))
  const script = join(folder, 'system.sql')
  await writeFile(script, `USE mysql;\nSET @auth_root_socket = NULL;\n${texts.join('\n')}`)
  await runTool('sh', ['-c', 'exec "$0" "$@" < system.sql', server, ...places, '--bootstrap', '--log-warnings=0'], {
    cwd: folder,
    env,
  })
}

/** The server speaks first, of itself. */
function greets(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const line = connect(port, '127.0.0.1')
  line.once('data', (data) => resolve(data[4] === 10)).once('close', () => resolve(false))
  line.on('error', () => undefined)
  return promise.finally(() => line.destroy())
}

export default mariadb
