export function SignInNote() {
  return (
    <div className="signin" role="note">
      You are looking on. To act as yourself, run <code>rookery open</code> in the project and follow the address that it prints.
    </div>
  );
}
