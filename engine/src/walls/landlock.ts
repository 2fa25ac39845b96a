import { closeSync, constants, openSync } from 'node:fs'
import type { Libc, NativeFunction } from './libc.ts'

/** Landlock (landlock(7)): this thread, and every thread it makes, opens only what rules name. */

/** The same numbers on every architecture. */
const CREATE_RULESET = 444
const ADD_RULE = 445
const RESTRICT_SELF = 446
const CREATE_VERSION = 1
const RULE_PATH_BENEATH = 1
const O_PATH = 0o10000000

const RULE_NET_PORT = 2
const CONNECT_TCP = 1n << 1n

const EXECUTE = 1n << 0n
const WRITE_FILE = 1n << 1n
const READ_FILE = 1n << 2n
const READ_DIR = 1n << 3n
const REMOVE_DIR = 1n << 4n
const REMOVE_FILE = 1n << 5n
const MAKE_DIR = 1n << 7n
const MAKE_REG = 1n << 8n
const REFER = 1n << 13n
const TRUNCATE = 1n << 14n
/** PR_SET_NO_NEW_PRIVS, which the kernel asks for first, thread by thread. */
const NO_NEW_PRIVS = [38, 1, 0, 0, 0] as const
/** Rights that the first version knew; each later one added some at the end. */
const RIGHTS_BY_VERSION = [0, 13, 14, 15, 15, 16, 16, 16] as const
const NET_RIGHTS = 0b11n
const SCOPES = 0b11n

const READ_TREE = READ_FILE | READ_DIR
const WRITE_TREE = READ_TREE | WRITE_FILE | TRUNCATE | MAKE_REG | MAKE_DIR | REMOVE_FILE | REMOVE_DIR | REFER
const ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE

export interface OpenPaths {
  readonly files: readonly string[]
  readonly readTrees: readonly string[]
  readonly writeTrees: readonly string[]
  /** What lies there may be read, and run as a program. */
  readonly runTrees?: readonly string[]
  /** Ports that TCP may connect to, at any address. Default: none. */
  readonly ports?: readonly number[]
}

export const LANDLOCK_MISSING = 'the kernel has no Landlock'

/** Below 1: the kernel has none. */
export function landlockVersion(libc: Libc): number {
  return Number(libc.func('long syscall(long number, long a, long b, long c)')(CREATE_RULESET, 0, 0, CREATE_VERSION))
}

/** A rule set that is ready to be put on threads. Made while the paths can still be reached. */
export class Landlock {
  readonly #restrict: NativeFunction
  readonly #noNewRights: NativeFunction
  readonly #ruleset: number

  private constructor(libc: Libc, ruleset: number) {
    this.#restrict = libc.func('long syscall(long number, long ruleset, long flags)')
    this.#noNewRights = libc.func(
      'int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)',
    )
    this.#ruleset = ruleset
  }

  /** Throws where the kernel has no Landlock. */
  static prepare(libc: Libc, paths: OpenPaths): Landlock {
    const addRule = libc.func('long syscall(long number, long ruleset, long kind, void *rule, long flags)')
    const version = landlockVersion(libc)
    if (version < 1) throw new Error(LANDLOCK_MISSING)
    const attributes = rulesetAttributes(version)
    const create = libc.func('long syscall(long number, void *attributes, long size, long flags)')
    const ruleset = Number(create(CREATE_RULESET, attributes, attributes.length, 0))
    if (ruleset < 0) throw new Error(`no Landlock rule set could be made: errno ${libc.errno()}`)
    const known = knownRights(version)
    const allow = (path: string, rights: bigint) => allowPath(libc, addRule, ruleset, path, rights & known)
    for (const file of paths.files) allow(file, READ_FILE)
    for (const tree of paths.readTrees) allow(tree, READ_TREE)
    for (const tree of paths.writeTrees) allow(tree, WRITE_TREE)
    for (const tree of paths.runTrees ?? []) allow(tree, READ_TREE | EXECUTE)
    if (version >= 4) for (const port of paths.ports ?? []) allowPort(libc, addRule, ruleset, port)
    return new Landlock(libc, ruleset)
  }

  /** On the calling thread. Threads that exist already are not touched. */
  restrictThisThread(): boolean {
    return this.#noNewRights(...NO_NEW_PRIVS) === 0 && this.#restrict(RESTRICT_SELF, this.#ruleset, 0) === 0
  }

  /** On the pool's thread. */
  async restrictPoolThread(): Promise<boolean> {
    if ((await onPool(this.#noNewRights, NO_NEW_PRIVS)) !== 0) return false
    return (await onPool(this.#restrict, [RESTRICT_SELF, this.#ruleset, 0])) === 0
  }
}

function onPool(call: NativeFunction, values: readonly number[]): Promise<number> {
  return new Promise((resolve) => {
    call.async(...values, (error: unknown, result: number | bigint) => resolve(error ? -1 : Number(result)))
  })
}

function knownRights(version: number): bigint {
  const bits = RIGHTS_BY_VERSION[Math.min(version, RIGHTS_BY_VERSION.length - 1)] ?? 13
  return (1n << BigInt(bits)) - 1n
}

/** `struct landlock_ruleset_attr`: files, then network (version 4), then scopes (version 6). */
function rulesetAttributes(version: number): Buffer {
  const attributes = Buffer.alloc(version >= 6 ? 24 : version >= 4 ? 16 : 8)
  attributes.writeBigUInt64LE(knownRights(version), 0)
  if (version >= 4) attributes.writeBigUInt64LE(NET_RIGHTS, 8)
  if (version >= 6) attributes.writeBigUInt64LE(SCOPES, 16)
  return attributes
}

function allowPath(libc: Libc, addRule: NativeFunction, ruleset: number, path: string, rights: bigint): void {
  const descriptor = openSync(path, O_PATH)
  try {
    // `struct landlock_path_beneath_attr`, packed. Rights that only folders have are refused on a file.
    const rule = Buffer.alloc(12)
    rule.writeInt32LE(descriptor, 8)
    rule.writeBigUInt64LE(rights, 0)
    if (Number(addRule(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)) === 0) return
    rule.writeBigUInt64LE(rights & ON_FILES, 0)
    if (Number(addRule(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)) === 0) return
    throw new Error(`a Landlock rule was refused: errno ${libc.errno()}`)
  } finally {
    closeSync(descriptor)
  }
}

/** `struct landlock_net_port_attr`. */
function allowPort(libc: Libc, addRule: NativeFunction, ruleset: number, port: number): void {
  const rule = Buffer.alloc(16)
  rule.writeBigUInt64LE(CONNECT_TCP, 0)
  rule.writeBigUInt64LE(BigInt(port), 8)
  if (Number(addRule(ADD_RULE, ruleset, RULE_NET_PORT, rule, 0)) === 0) return
  throw new Error(`a Landlock rule was refused: errno ${libc.errno()}`)
}

/** True where opening that file for reading is refused. */
export function isRefused(path: string): boolean {
  try {
    closeSync(openSync(path, constants.O_RDONLY))
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES'
  }
}
