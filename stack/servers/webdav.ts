/** A WebDAV server over a folder, from wheels of PyPI in a virtual environment. */
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { installed, runTool } from '../cache.ts'
import { machineVersion } from '../machine-version.ts'
import { startNative } from '../native-process.ts'
import type { ServerKind } from '../server.ts'

const VERSION = '4.4.0'
const PACKAGES = [`wsgidav==${VERSION}`, 'cheroot==11.1.2']
const READY_MS = 120_000

const webdav: ServerKind = {
  name: 'WsgiDAV',
  variable: 'SLUICE_TEST_WEBDAV_URL',
  prepare: environment,
  version: () => machineVersion('python3'),
  async start(folder) {
    const python = join(await environment(), 'bin/python')
    const [port, password, root] = [await freePort(), randomBytes(18).toString('base64url'), join(folder, 'files')]
    await mkdir(root, { recursive: true })
    const config = {
      ...{ host: '127.0.0.1', port, provider_mapping: { '/lake': root }, verbose: 1 },
      http_authenticator: { accept_basic: true, accept_digest: false, default_to_digest: false },
      simple_dc: { user_mapping: { '*': { sluice: { password } } } },
    }
    await writeFile(join(folder, 'wsgidav.json'), JSON.stringify(config))
    const running = await startNative({
      name: 'wsgidav',
      command: python,
      args: ['-m', 'wsgidav.server.server_cli', '--config', join(folder, 'wsgidav.json')],
      logFile: join(folder, 'wsgidav.log'),
      // Without a login it refuses, which only a server that is up does.
      ready: async () => (await fetch(`http://127.0.0.1:${port}/lake/`)).status === 401,
      readyTimeoutMs: READY_MS,
    })
    const env = { SLUICE_TEST_WEBDAV_URL: `http://sluice:${password}@127.0.0.1:${port}/lake` }
    return { env, stop: () => running.stop() }
  },
}

function environment(): Promise<string> {
  return installed(`wsgidav-${VERSION}`, async (folder, signal) => {
    await runTool('python3', ['-m', 'venv', folder])
    await runTool(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', ...PACKAGES], { signal })
  })
}

export default webdav
