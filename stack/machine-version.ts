/** Versions of what servers take from the machine, and no source of ours names. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** What the command prints of itself, on whichever stream; `absent` where it cannot be run. */
export async function machineVersion(command: string, args: readonly string[] = ['--version']): Promise<string> {
  try {
    const { stdout, stderr } = await run(command, [...args])
    return `${stdout}${stderr}`.trim()
  } catch {
    return 'absent'
  }
}
