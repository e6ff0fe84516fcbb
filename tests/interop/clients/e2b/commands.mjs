// commands.mjs - sandbox.commands and sandbox.pty of the npm package.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { e2b } from './kit.mjs'

const { Sandbox, CommandExitError, NotFoundError } = e2b
let sandbox
before(async () => { sandbox = await Sandbox.create() })
after(async () => { await sandbox.kill() })

test('output and status are the command\'s own', async () => {
  const done = await sandbox.commands.run('echo hällo; echo bad >&2; pwd', { envs: { A: '1' } })
  assert.deepEqual([done.exitCode, done.stdout, done.stderr], [0, 'hällo\n/home/user\n', 'bad\n'])
})

test('a failing command throws with its status', async () => {
  await assert.rejects(sandbox.commands.run('exit 3'), (error) => error instanceof CommandExitError && error.exitCode === 3)
})

test('a large output comes whole', async () => {
  const done = await sandbox.commands.run('seq 1 100000; printf "€%.0s" $(seq 20000)')
  assert.equal(done.stdout, Array.from({ length: 100000 }, (_, i) => `${i + 1}\n`).join('') + '€'.repeat(20000))
})

test('background, list, stdin, connect, kill', async () => {
  const handle = await sandbox.commands.run('read line; echo got $line; exec sleep 1000', { background: true, stdin: true })
  assert.ok((await sandbox.commands.list()).some((one) => one.pid === handle.pid))
  await sandbox.commands.sendStdin(handle.pid, 'word\n')
  const connected = await sandbox.commands.connect(handle.pid)
  assert.equal(await sandbox.commands.kill(handle.pid), true)
  await assert.rejects(handle.wait(), CommandExitError)
  await assert.rejects(connected.wait(), CommandExitError)
  assert.equal(await sandbox.commands.kill(999999), false)
  await assert.rejects(sandbox.commands.connect(999999), NotFoundError)
})

test('a terminal', async () => {
  let text = ''
  const handle = await sandbox.pty.create({ cols: 100, rows: 30, onData: (data) => { text += Buffer.from(data).toString() } })
  await sandbox.pty.sendInput(handle.pid, Buffer.from('stty size; tty; exit\n'))
  await handle.wait()
  assert.match(text, /30 100/)
  assert.match(text, /\/dev\/pts\//)
})

test('a sandbox that is killed under a command is told apart', async () => {
  const own = await Sandbox.create()
  const handle = await own.commands.run('sleep 1000', { background: true })
  await own.kill()
  await assert.rejects(handle.wait(), (error) => !(error instanceof CommandExitError))
  assert.equal(await own.isRunning(), false)
})

test('input is closed, and a command is ended at its timeout', async (t) => {
  if (!sandbox.commands.closeStdin) return t.skip('this version has no closeStdin')
  const handle = await sandbox.commands.run('cat; echo end', { background: true, stdin: true })
  await sandbox.commands.sendStdin(handle.pid, 'a\n')
  await sandbox.commands.closeStdin(handle.pid)
  assert.equal((await handle.wait()).stdout, 'a\nend\n')
  await assert.rejects(sandbox.commands.run('sleep 98765', { timeoutMs: 300 }), e2b.TimeoutError)
  await sandbox.commands.run("while pgrep -f 'sleep 9876[5]'; do :; done")
})

test('a terminal is resized and killed', async () => {
  let text = ''
  let again
  const seen = new Promise((resolve) => { again = resolve })
  const handle = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => {
    text += Buffer.from(data).toString()
    if (text.includes('40 120')) again()
  } })
  await sandbox.pty.resize(handle.pid, { cols: 120, rows: 40 })
  await sandbox.pty.sendInput(handle.pid, Buffer.from('stty size\n'))
  await seen
  assert.equal(await sandbox.pty.kill(handle.pid), true)
  await assert.rejects(handle.wait(), CommandExitError)
  assert.equal(await sandbox.pty.kill(handle.pid), false)
})

test('a repository of the sandbox', async (t) => {
  if (!sandbox.git) return t.skip('this version has no git')
  if (!(await sandbox.commands.run('command -v git || true')).stdout) return t.skip('git is not installed in this sandbox')
  await sandbox.git.init('repo', { initialBranch: 'main' })
  await sandbox.commands.run('git config --global user.email a@b.c; git config --global user.name n')
  await sandbox.files.write('repo/a.txt', 'x')
  await sandbox.git.add('repo')
  await sandbox.git.commit('repo', 'first')
  const status = await sandbox.git.status('repo')
  assert.deepEqual([status.isClean, status.currentBranch], [true, 'main'])
})
