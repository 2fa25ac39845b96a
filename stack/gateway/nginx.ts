/** The program of the gateway: Debian's, which reads the configuration that is deployed. */

import { runTool } from '../cache.ts'

/** Its path; installed where it is missing, and not started. */
export async function nginxCommand(): Promise<string> {
  const found = await runTool('sh', ['-c', 'command -v nginx']).catch(() => null)
  if (found !== null) return found.trim()
  // The package would start a server of its own.
  await runTool('apt-get', ['install', '--yes', '--no-install-recommends', 'nginx'], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
  })
  return (await runTool('sh', ['-c', 'command -v nginx'])).trim()
}
