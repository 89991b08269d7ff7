// C-6: bound to operation, epoch, token and action.
use publication_protocol::authority::DispatchPermit;
use publication_protocol::identity::Action;

fn rebind(mut permit: DispatchPermit) -> DispatchPermit {
    permit.action = Action::Drop;
    permit.epoch = 2;
    permit
}

fn main() {}
