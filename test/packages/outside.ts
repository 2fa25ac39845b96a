/** A project outside of this repository, into which the packed workspaces are installed as anybody would. */
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import semver from 'semver'
import { release } from '../../packaging/release.ts'
import { versionOf } from '../../packaging/release-version.ts'
import { printedBy } from '../../packaging/tarballs.ts'
import { copyOfRepository } from './copy.ts'

const ROOT = join(import.meta.dirname, '../..')

export interface Outside {
  readonly folder: string
  /** By package name: the tarball that it was installed from. */
  readonly tarballs: ReadonlyMap<string, string>
  readonly released: {
    readonly version: string
    /** What a person was told after the first step, and after the second. */
    readonly prepared: string
    readonly told: string
    readonly changelog: string
  }
  remove(): Promise<void>
}

/** Installs every published package of a release, with what they depend on, in a new folder. */
export async function installOutside(): Promise<Outside> {
  const work = await mkdtemp(join(tmpdir(), 'sluice-packages-'))
  const remove = () => rm(work, { recursive: true, force: true })
  try {
    const { tarballs, released } = await releaseCopy(join(work, 'repository'))
    // As people name folders, who do not know what that breaks.
    const folder = join(work, 'a project – für Züge')
    await mkdir(folder)
    await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'outside', private: true, type: 'module' }))
    const install = ['install', '--prefer-offline', '--no-audit', '--no-fund']
    await printedBy(folder, 'npm', [...install, ...tarballs.values(), ...(await tools())])
    await rm(join(work, 'repository'), { recursive: true })
    return { folder, tarballs, released, remove }
  } catch (error) {
    await remove()
    throw error
  }
}

/** What authors of plugins work with, in the versions of this repository. */
async function tools(): Promise<readonly string[]> {
  const { devDependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    readonly devDependencies: Readonly<Record<string, string>>
  }
  return ['typescript', '@types/node'].map((name) => `${name}@${devDependencies[name]}`)
}

/**
 * A copy of the repository on a branch main, released as the next minor version in both steps: what is installed are the
 * tarballs that a release is made of.
 */
async function releaseCopy(target: string): Promise<Pick<Outside, 'tarballs' | 'released'>> {
  const root = await copyOfRepository(target)
  const commit = async (message: string) => {
    await printedBy(root, 'git', ['add', '--all'])
    const author = ['-c', 'user.name=A', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false']
    await printedBy(root, 'git', [...author, 'commit', '--quiet', '--message', message])
  }
  await printedBy(root, 'git', ['init', '--quiet', '--initial-branch=main'])
  await commit('Before')
  const version = semver.inc(await versionOf(root), 'minor') as string
  // What checks the tree runs in CI anyway, and an hour's proofs of stores are for a real release.
  const what = { root, version, day: '2026-01-31', isDryRun: false, check: async () => {} }
  const prepared = await release({ ...what, staleCertificates: async () => ['a store has changed since'] })
  await commit('Release')
  const told = await release({ ...what, staleCertificates: async () => [] })
  // They stay when the copy goes: packages are installed from them one by one, too.
  const folder = `${root}-tarballs`
  await rename(join(root, '.sluice', `release-${version}`), folder)
  const tarballs = (await readdir(folder)).map((file) => [nameOf(file), join(folder, file)] as const)
  const changelog = await readFile(join(root, 'CHANGELOG.md'), 'utf8')
  return { tarballs: new Map(tarballs), released: { version, prepared, told, changelog } }
}

/** `sluice-lookup-1.0.0.tgz` is of `@sluice/lookup`. */
function nameOf(tarball: string): string {
  return tarball.replace(/^sluice-(.+?)-\d.*$/, '@sluice/$1')
}
