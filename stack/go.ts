/** Programs from Go's module proxy, built by its own command. */
import { runTool } from './cache.ts'

/** Neither optimised nor with what a debugger needs: a third less work, for a program that lives for minutes. */
const QUICKLY = ['-gcflags=all=-N -l -dwarf=false', '-ldflags=-s -w']

/** Builds `module@version` into the folder; tests that run meanwhile go first. */
export async function installGoProgram(module: string, folder: string, signal: AbortSignal): Promise<void> {
  const env = { ...process.env, GOBIN: folder, GOFLAGS: '-mod=mod' }
  await runTool('nice', ['-n', '10', 'go', 'install', ...QUICKLY, module], { env, signal })
}
