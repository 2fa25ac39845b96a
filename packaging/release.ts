/**
 * `npm run release -- VERSION [--dry-run]`: makes a release in two steps, since certificates are of the files with their
 * version in them. The first sets the version and dates the change log, in the working tree. The second, once that is
 * committed with new certificates, packs every published package and installs the tarballs in an empty folder. Both ask
 * for a clean tree on main and a green `npm run check`. With `--dry-run` both are made in a copy, and nothing is kept.
 * What is left to a person is printed; nothing is ever pushed, tagged or published from here.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import semver from 'semver'
import { isReleased, releasedChangelog } from './release-changelog.ts'
import { setVersion, versionOf } from './release-version.ts'
import { copyRepository, filesOf, packPublished, printedBy } from './tarballs.ts'

export interface Release {
  /** The working tree. */
  readonly root: string
  readonly version: string
  /** As YYYY-MM-DD. */
  readonly day: string
  readonly isDryRun: boolean
  /** Throws where the tree is not green. */
  check(): Promise<void>
  /** In words, which certificates are not of the files as they are. */
  staleCertificates(): Promise<readonly string[]>
}

/** What a person reads at the end. Throws, before anything is changed, where the tree is not ready for it. */
export async function release(what: Release): Promise<string> {
  await expectReady(what)
  await what.check()
  if (what.isDryRun) return dryRun(what)
  const changelog = await readFile(join(what.root, 'CHANGELOG.md'), 'utf8')
  const isPrepared = (await versionOf(what.root)) === what.version && isReleased(changelog, what.version)
  return isPrepared ? finish(what, join(what.root, '.sluice', `release-${what.version}`)) : prepare(what)
}

async function expectReady({ root, version, isDryRun }: Release): Promise<void> {
  const branch = (await printedBy(root, 'git', ['branch', '--show-current'])).trim()
  if (branch !== 'main') throw new Error(`a release is made of main, and this is ${branch || 'no branch'}`)
  const changed = await printedBy(root, 'git', ['status', '--porcelain'])
  if (changed !== '') throw new Error(`there are changes that are not committed:\n${changed}`)
  const before = await versionOf(root)
  if (semver.valid(version) !== version) throw new Error(`${version} is no version: 1.2.3 or 1.2.3-rc.1`)
  const isNext = semver.gt(version, before) || (version === before && !isDryRun)
  if (!isNext) throw new Error(`${version} is not after ${before}, which the packages have`)
}

async function prepare(what: Release): Promise<string> {
  const changed = await setRelease(what.root, await filesOf(what.root), what)
  return [
    `The version is ${what.version} and the change log has its date, in ${changed.length} files. What is left to do:`,
    '',
    '  npm run certify          # an hour: certificates are of the files with their version',
    '  node docs/generate.ts && npm test',
    `  git add -A && git commit -m 'Release ${what.version}'`,
    `  npm run release -- ${what.version}      # again: makes the tarballs and installs them`,
  ].join('\n')
}

/** The files that were changed. Throws, having changed none, where nothing is unreleased. */
async function setRelease(
  root: string,
  files: readonly string[],
  { version, day }: Pick<Release, 'version' | 'day'>,
): Promise<readonly string[]> {
  const logs = new Map<string, string>()
  for (const file of files.filter((one) => /^(plugins\/[a-z]+\/)?CHANGELOG\.md$/.test(one))) {
    const text = releasedChangelog(await readFile(join(root, file), 'utf8'), version, day)
    if (text !== null) logs.set(file, text)
  }
  if (!logs.has('CHANGELOG.md')) throw new Error('CHANGELOG.md has nothing unreleased')
  const changed = await setVersion(root, files, version)
  for (const [file, text] of logs) await writeFile(join(root, file), text)
  return [...changed, ...logs.keys()]
}

async function finish({ root, version, staleCertificates }: Release, target: string): Promise<string> {
  const stale = await staleCertificates()
  if (stale.length > 0) throw new Error(`certificates are not of the files of this release:\n${stale.join('\n')}`)
  await rm(target, { recursive: true, force: true })
  const tarballs = await inCopy(root, (copy, work) => packed(copy, target, join(work, 'empty'), version))
  return [
    `Release ${version} lies in ${relative(root, target)}, and installs. What is left to do:`,
    '',
    `  git tag -a v${version} -m 'Release ${version}'`,
    `  git push origin main v${version}`,
    ...[...tarballs.values()].map((file) => `  npm publish --access public ./${relative(root, file)}`),
    `  docker build -t sluice:${version} .      # and push it to where you deploy from`,
    '',
    'npm refuses a package whose version is published already, as of the contract where that has not changed; go on then.',
  ].join('\n')
}

function dryRun(what: Release): Promise<string> {
  return inCopy(what.root, async (copy, work, files) => {
    const changed = await setRelease(copy, files, what)
    const tarballs = await packed(copy, join(work, 'tarballs'), join(work, 'empty'), what.version)
    return [
      `Release ${what.version} would change ${changed.join(', ')}.`,
      `It would consist of ${[...tarballs.keys()].join(', ')}; their tarballs install and start.`,
      'Certificates have to be made anew for it (npm run certify). Nothing was changed here.',
    ].join('\n')
  })
}

/** Packing rewrites package.json for a moment, and a dry run changes more. */
async function inCopy<T>(
  root: string,
  use: (copy: string, work: string, files: readonly string[]) => Promise<T>,
): Promise<T> {
  const work = await mkdtemp(join(tmpdir(), 'sluice-release-'))
  try {
    const files = await filesOf(root)
    return await use(await copyRepository(root, files, join(work, 'repository')), work, files)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/** By package name; proves that an empty folder is all that the tarballs need. */
async function packed(
  copy: string,
  target: string,
  empty: string,
  version: string,
): Promise<ReadonlyMap<string, string>> {
  const tarballs = await packPublished(copy, target)
  await expectInstalls([...tarballs.values()], empty, version)
  return tarballs
}

async function expectInstalls(tarballs: readonly string[], folder: string, version: string): Promise<void> {
  await mkdir(folder)
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'empty', private: true, type: 'module' }))
  await printedBy(folder, 'npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', ...tarballs])
  const told = (await printedBy(folder, join(folder, 'node_modules/.bin/sluice'), ['--version'])).trim()
  if (told !== version) throw new Error(`what was installed says that it is ${told}, and this is release ${version}`)
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { 'dry-run': { type: 'boolean' } } })
  const [version] = positionals
  if (version === undefined || positionals.length > 1) throw new Error('npm run release -- VERSION [--dry-run]')
  const root = join(import.meta.dirname, '..')
  const printed = await release({
    root,
    version,
    day: new Date().toISOString().slice(0, 10),
    isDryRun: values['dry-run'] ?? false,
    check: async () => void (await printedBy(root, 'npm', ['run', '--silent', 'check'])),
    staleCertificates: async () => (await import('./kept-certificates.ts')).staleCertificates(),
  })
  console.log(printed)
}

if (import.meta.main) {
  await main().catch((error: unknown) => {
    console.error(`release: ${(error as Error).message}`)
    process.exitCode = 1
  })
}
