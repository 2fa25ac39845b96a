/** The `sluice` command as it is installed, in a process of its own. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'

export const LAUNCHER = join(import.meta.dirname, '../runtime/bin/sluice.js')

export interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Nothing of what this process says of Sluice reaches it, but the server and the token. */
export function runSluice(
  words: readonly string[],
  { url, token, cwd }: { readonly url: string; readonly token: string; readonly cwd?: string },
): Promise<Ended> {
  const foreign = Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'))
  const env = { ...Object.fromEntries(foreign), SLUICE_URL: url, SLUICE_TOKEN: token }
  return new Promise((resolve) => {
    execFile(process.execPath, [LAUNCHER, ...words], { env, cwd }, (error, out, err) => {
      resolve({ code: error ? Number(error.code) : 0, out, err })
    })
  })
}
