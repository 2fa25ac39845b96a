/** One layer between a tenant's statement and the machine. */
export interface Wall {
  readonly name:
    | 'own-user'
    | 'landlock'
    | 'seccomp'
    | 'memory-limit'
    | 'memory-watchdog'
    | 'open-files'
    | 'parent-death'
  /** True only where the child has tried the forbidden thing and was refused. */
  readonly up: boolean
  /** Why it is down. */
  readonly why?: string
}
